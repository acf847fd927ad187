//! Loss of TCP segments. A relay ends connections and begins others, so it has no segments to lose: the kernel's packet filter
//! drops them on the way to the relay's port and back (nft(8), `numgen`). The table belongs to an `nft` that waits for more
//! orders (`flags owner`): the kernel removes it when that ends, and that ends with the relay, however the relay ends.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long the filter may take until it has its rules.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);
/// Shares are drawn in steps of one in so many.
const STEPS: f64 = 1_000_000.0;
/// Rules: to the relay, and from it.
const RULES: usize = 2;

/// Segments that go to a relay, and those that come from it, get lost until this is dropped.
#[derive(Debug)]
pub struct SegmentLoss {
    nft: Child,
    table: String,
}

impl SegmentLoss {
    /// Lets that share of the segments get lost that go to that address of this host, and of those that come from there.
    ///
    /// # Errors
    /// There is no `nft`, or it may not change the filter: why, for people.
    pub fn begin(address: SocketAddr, share: f64) -> Result<SegmentLoss, String> {
        let table = format!("plimsoll_relay_{}_{}", std::process::id(), address.port());
        let rules = rules(&table, address, share);
        try_out(&rules)?;
        let mut command = Command::new(program());
        command.arg("-i").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut loss = SegmentLoss { nft: command.spawn().map_err(|error| unstartable(&error))?, table };
        let asked = loss.nft.stdin.as_mut().map(|orders| orders.write_all(rules.as_bytes()));
        let (begun, was_asked) = (Instant::now(), matches!(asked, Some(Ok(()))));
        while was_asked && begun.elapsed() < PATIENCE {
            if loss.counts().len() == RULES {
                return Ok(loss);
            }
            thread::sleep(PAUSE);
        }
        Err("`nft` takes the rules and does not keep them".to_owned())
    }

    /// Whether the rules have gone with the `nft` that has them.
    pub fn is_over(&mut self) -> bool {
        !matches!(self.nft.try_wait(), Ok(None))
    }

    /// How many segments got lost.
    pub fn lost(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// The table as the kernel has it; `None` where there is none.
    fn listing(&self) -> Option<String> {
        let output = Command::new(program()).args(["list", "table", "inet", &self.table]).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// What each rule has dropped.
    fn counts(&self) -> Vec<u64> {
        let listing = self.listing().unwrap_or_default();
        let count = |line: &str| line.split_once("counter packets ")?.1.split(' ').next()?.parse().ok();
        listing.lines().filter_map(count).collect()
    }
}

/// The orders. Both rules stand where packets come in, because a kernel that drops its own packets on their way out knows that it
/// did.
fn rules(table: &str, address: SocketAddr, share: f64) -> String {
    let port = address.port();
    let place = |side: &str| match address {
        SocketAddr::V4(v4) if !v4.ip().is_unspecified() => format!("ip {side}addr {} ", v4.ip()),
        SocketAddr::V6(v6) if !v6.ip().is_unspecified() => format!("ip6 {side}addr {} ", v6.ip()),
        // Other connections of this host may have the port at their other end.
        _ => format!("fib {side}addr type local "),
    };
    let dropped = match (share * STEPS).round() {
        all if all >= STEPS => "counter drop".to_owned(),
        most => format!("numgen random mod {STEPS} < {most} counter drop"),
    };
    let rule =
        |side: &str| format!("add rule inet {table} lost {}tcp {side}port {port} {dropped}\n", place(side));
    format!(
        "add table inet {table} {{ flags owner; }}\n\
         add chain inet {table} lost {{ type filter hook input priority 0; }}\n{}{}",
        rule("d"),
        rule("s")
    )
}

/// Lets an `nft` take the orders that ends at once, and the table with it: the one that stays tells nobody of a refusal.
fn try_out(rules: &str) -> Result<(), String> {
    let mut command = Command::new(program());
    command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut nft = command.spawn().map_err(|error| unstartable(&error))?;
    // It may end before it has read them all.
    let _ = nft.stdin.take().map(|mut orders| orders.write_all(rules.as_bytes()));
    let output = nft.wait_with_output().map_err(|error| unstartable(&error))?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(match told.contains("not permitted") {
        true => "only root may change the packet filter".to_owned(),
        false => format!("`nft` says: {}", told.lines().next().unwrap_or("it takes no rules").trim()),
    })
}

fn unstartable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no `nft`; install nftables".to_owned(),
        _ => format!("cannot start `nft`: {error}"),
    }
}

/// Where `nft` is: who is not root has another search path.
fn program() -> &'static str {
    const APART: &str = "/usr/sbin/nft";
    if Path::new(APART).exists() { APART } else { "nft" }
}

impl Drop for SegmentLoss {
    fn drop(&mut self) {
        let _ = self.nft.kill();
        let _ = self.nft.wait();
    }
}

//! `plimsoll target lwm2m`: a small server of LwM2M.

use crate::failure::Failure;
use crate::output::say;
use crate::{exit_code, interrupt};
use clap::{Args, ValueEnum};
use plimsoll_codec::coap::Block;
use plimsoll_codec::lwm2m::{Path, format};
use plimsoll_target::lwm2m::{Lwm2mTarget, Secret, Settings};
use std::net::IpAddr;
use std::path::PathBuf;

/// A small server of LwM2M, for tests and rehearsal:
/// devices register, it observes them and records what comes
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll target lwm2m --port 5683 --record record.csv
  plimsoll target lwm2m --observe 3303/0/5700 --format senml-json
  plimsoll target lwm2m --bootstrap-port 5783 --firmware 102400

A line of the record has the time (CLOCK_MONOTONIC), what came, whose it
was, the path, the number of the notification, and the value in hexadecimal
digits.
SIGTERM or Ctrl-C ends it.")]
pub struct Lwm2m {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// UDP port; 0 for a free one, which is then printed
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// What to observe of each device; may stand several times
    #[arg(long, value_name = "PATH", default_value = "19/0/0", value_parser = path)]
    observe: Vec<Path>,
    /// The format of notifications (default: what the device prefers)
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Put away each N-th datagram, as if the network had lost it (default: never)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    lose_every: Option<u64>,
    /// UDP port at which devices are bootstrapped, 0 for a free one (default: they are not)
    #[arg(long, value_name = "PORT")]
    bootstrap_port: Option<u16>,
    /// Secure bootstrapping by DTLS with the key in this file; devices are given that of --key-file (default: that key
    /// as well)
    #[arg(long, value_name = "FILE", requires = "bootstrap_port", requires = "key_file")]
    bootstrap_key_file: Option<PathBuf>,
    /// Secure datagrams by DTLS with the key in a file, whoever devices say that they are (default: they are not secured)
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Secure datagrams by DTLS with a certificate of this server, in PEM; devices show theirs, whoever signed them
    #[arg(long, value_name = "FILE", requires = "certificate_key", conflicts_with = "key_file")]
    certificate: Option<PathBuf>,
    /// The private key of --certificate, in PEM, for the curve P-256 or P-384
    #[arg(long, value_name = "FILE", requires = "certificate")]
    certificate_key: Option<PathBuf>,
    /// Take registrations in blocks of so many bytes at most: 16, 32, 64, 128, 256, 512 or 1024 (default: as devices
    /// send them)
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    block_size: Option<u16>,
    /// Offer new firmware of so many bytes to each device that has notified; 0 for none
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=16_777_216))]
    firmware: u32,
    /// Where to write what comes
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// Paths that are told apart by a byte of the token.
const MOST_OBSERVED: usize = 255;

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Opaque,
    Tlv,
    SenmlJson,
    SenmlCbor,
}

impl Lwm2m {
    pub fn perform(self) -> Result<u8, Failure> {
        if self.observe.len() > MOST_OBSERVED {
            let message =
                format!("--observe stands {} times, and may {MOST_OBSERVED} times", self.observe.len());
            return Err(Failure::Undoable(message));
        }
        let read = |path: PathBuf| match std::fs::read_to_string(&path) {
            Ok(text) => Ok(text.trim_end().to_owned()),
            Err(cause) => Err(Failure::Undoable(format!("cannot read {}: {cause}", path.display()))),
        };
        let secret = match (self.key_file, self.certificate, self.certificate_key) {
            (Some(file), _, _) => Some(Secret::Key(read(file)?)),
            (None, Some(certificate), Some(key)) => {
                Some(Secret::Certificate { certificate: read(certificate)?, key: read(key)? })
            }
            _ => None,
        };
        let settings = Settings {
            host: self.host,
            port: self.port,
            observes: self.observe,
            content_format: self.format.map(|format| match format {
                Format::Text => format::TEXT,
                Format::Opaque => format::OPAQUE,
                Format::Tlv => format::TLV,
                Format::SenmlJson => format::SENML_JSON,
                Format::SenmlCbor => format::SENML_CBOR,
            }),
            lose_every: self.lose_every,
            secret,
            bootstrap_port: self.bootstrap_port,
            bootstrap_key: self.bootstrap_key_file.map(read).transpose()?,
            block_size: self.block_size,
            firmware: (self.firmware > 0).then_some(self.firmware as usize),
            record: self.record,
        };
        let undoable = |error: &dyn std::fmt::Display| Failure::Undoable(error.to_string());
        let scheme = if settings.secret.is_some() { "coaps" } else { "coap" };
        let stop = interrupt::stop_flag().map_err(|error| undoable(&error))?;
        let target = Lwm2mTarget::bind(settings).map_err(|error| undoable(&error))?;
        let address = target.address().map_err(|error| undoable(&error))?;
        say(&format!("listening on {scheme}://{address}\n"));
        if let Some(address) = target.bootstrap_address().map_err(|error| undoable(&error))? {
            say(&format!("bootstrapping devices on {scheme}://{address}\n"));
        }
        let seen = target.run(&stop).map_err(|error| undoable(&error))?;
        say(&format!(
            "{} registrations, {} updates, {} notifications, {} that came again\n",
            seen.registered, seen.updated, seen.notified, seen.repeated
        ));
        for (count, what) in [
            (seen.bootstrapped, "devices bootstrapped"),
            (seen.sent, "messages sent of themselves"),
            (seen.downloaded, "images downloaded"),
        ] {
            if count > 0 {
                say(&format!("{count} {what}\n"));
            }
        }
        Ok(exit_code::MET)
    }
}

fn path(text: &str) -> Result<Path, String> {
    let found = Path::parse(text).filter(|path| *path != Path::ROOT);
    found.ok_or_else(|| "write object, instance and resource, such as 3303/0/5700".into())
}

fn block_size(text: &str) -> Result<u16, String> {
    let size = text.parse().ok().filter(|size: &u16| Block::new(0, false, *size).size() == *size);
    size.ok_or_else(|| "a block has 16, 32, 64, 128, 256, 512 or 1024 bytes".into())
}

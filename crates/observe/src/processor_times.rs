//! Ticks of each processor out of `/proc/stat` (proc(5)), by its number: one that is offline has no line there.

use std::fs;

/// What a processor did since the host was started, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessorTimes {
    /// Spent in programs, without the kernel's work for them.
    pub user: u64,
    /// Taken by the hypervisor.
    pub steal: u64,
}

/// Those of all processors, by number; `None` where they cannot be read.
pub(crate) fn read() -> Option<Vec<ProcessorTimes>> {
    fs::read_to_string("/proc/stat").ok().map(|text| parse(&text))
}

fn parse(text: &str) -> Vec<ProcessorTimes> {
    let mut all = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let number = words.next().and_then(|word| word.strip_prefix("cpu")?.parse::<usize>().ok());
        let Some(number) = number.filter(|&number| number < MOST) else { continue };
        let ticks: Vec<u64> = words.map(|word| word.parse().unwrap_or(0)).collect();
        let of = |place: usize| ticks.get(place).copied().unwrap_or(0);
        if all.len() <= number {
            all.resize(number + 1, ProcessorTimes::default());
        }
        if let Some(times) = all.get_mut(number) {
            *times = ProcessorTimes { user: of(USER) + of(NICE), steal: of(STEAL) };
        }
    }
    all
}

/// More processors than the kernel counts.
const MOST: usize = 1 << 16;
const USER: usize = 0;
const NICE: usize = 1;
const STEAL: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_have_their_numbers_also_where_one_is_offline() {
        let text = "cpu  9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu2 10 0 0 0 0 0 0 80 0 0\nintr 5\n";
        let all = parse(text);
        let times = |user, steal| ProcessorTimes { user, steal };
        assert_eq!(all, [times(3, 8), times(0, 0), times(10, 80)]);
        assert!(parse("").is_empty() && read().is_some_and(|all| !all.is_empty()));
    }
}

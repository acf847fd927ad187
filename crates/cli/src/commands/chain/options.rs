//! The options of each station of a chain, checked before any process is started.

use crate::commands::station::Station;
use crate::failure::Failure;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

/// What the chain gives each station itself.
const OF_THE_CHAIN: [&str; 5] = ["protocol", "port", "seed", "truth", "next"];
/// Stands for the address of the next station, which is known only when that one listens.
const SOME_NEXT: [&str; 2] = ["--next", "127.0.0.1:1"];

/// Options of one station alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// Its number, from 1 on.
    station: u16,
    options: Vec<String>,
}

/// Reads `N:OPTIONS`.
///
/// # Errors
/// There is no number of a station, or there are no options.
pub fn own(text: &str) -> Result<Own, String> {
    let how = "write N:OPTIONS, such as '2:--workers 4'";
    let (station, options) = text.split_once(':').ok_or(how)?;
    let station = station.trim().parse().map_err(|_| how)?;
    let options: Vec<String> = options.split_whitespace().map(str::to_owned).collect();
    if options.is_empty() { Err(how.into()) } else { Ok(Own { station, options }) }
}

/// The options of each station, from the first to the last: those of all of them, then its own.
///
/// # Errors
/// Options of a station that does not exist, that a station does not know, that do not go together, or that the chain
/// gives itself.
pub fn of_each(stations: u16, common: &[String], owns: &[Own]) -> Result<Vec<Vec<String>>, Failure> {
    if let Some(Own { station, .. }) = owns.iter().find(|own| !(1..=stations).contains(&own.station)) {
        return Err(Failure::Usage(format!(
            "there is no station {station}: the chain has stations 1 to {stations} (--stations)"
        )));
    }
    let of_one = |number| {
        let own = owns.iter().filter(|own| own.station == number).flat_map(|own| &own.options);
        let options: Vec<String> = common.iter().chain(own).cloned().collect();
        let refused = |reason| Failure::Usage(format!("station {number}: {reason}"));
        check(&options, number == stations).map_err(refused)?;
        Ok(options)
    };
    (1..=stations).map(of_one).collect()
}

/// Whether a station takes these options.
fn check(options: &[String], is_last: bool) -> Result<(), String> {
    let given = parse(options.iter().map(String::as_str))?;
    let is_given = |name: &str| given.value_source(name) == Some(ValueSource::CommandLine);
    if let Some(name) = OF_THE_CHAIN.iter().find(|name| is_given(name)) {
        return Err(format!("the chain gives each station its --{name}: see `plimsoll target chain --help`"));
    }
    if is_last && is_given("pool") {
        return Err(
            "--pool needs a next station, and the last one has none: give it to others by --station".into()
        );
    }
    let next: &[&str] = if is_last { &[] } else { &SOME_NEXT };
    let given = parse(options.iter().map(String::as_str).chain(next.iter().copied()))?;
    let station = Station::from_arg_matches(&given).map_err(|error| reason(&error))?;
    match station.settings() {
        Err(Failure::Usage(reason)) => Err(reason),
        Err(failure) => Err(failure.to_string()),
        Ok(_) => Ok(()),
    }
}

fn parse<'a>(options: impl Iterator<Item = &'a str>) -> Result<ArgMatches, String> {
    let command =
        Command::new("station").no_binary_name(true).disable_help_flag(true).args_override_self(true);
    Station::augment_args(command).try_get_matches_from(options).map_err(|error| reason(&error))
}

/// What is wrong, without the usage that stands below it: that of the chain is another.
fn reason(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first).replace('\n', " ");
    format!("{first}; see `plimsoll target station --help`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn refusal(stations: u16, common: &str, owns: &[&str]) -> String {
        let owns: Vec<Own> = owns.iter().map(|text| own(text).unwrap()).collect();
        of_each(stations, &words(common), &owns).unwrap_err().to_string()
    }

    #[test]
    fn own_options_come_after_those_of_all_stations() {
        let owns = ["2:--workers 4", "1:--pool 2", "2:--sharing"].map(|text| own(text).unwrap());
        let each = of_each(3, &words("--workers 2 --service exponential:2ms"), &owns).unwrap();
        let common = "--workers 2 --service exponential:2ms";
        let expected =
            [format!("{common} --pool 2"), format!("{common} --workers 4 --sharing"), common.into()];
        assert_eq!(each, expected.map(|text| words(&text)));
    }

    #[test]
    fn what_is_no_station_or_no_option_is_refused_with_what_to_do() {
        for wrong in ["2", "2:", "x:--sharing", "--workers 4", "-1:--sharing"] {
            assert!(own(wrong).is_err(), "{wrong}");
        }
        for (common, one, hint) in [
            ("", "3:--sharing", "there is no station 3: the chain has stations 1 to 2"),
            ("", "0:--sharing", "there is no station 0"),
            (
                "",
                "2:--wrokers 4",
                "station 2: unexpected argument '--wrokers' found; see `plimsoll target station",
            ),
            ("", "2:--lock 1ms", "station 2: invalid value '1ms' for '--lock <LAW>': write deterministic"),
            ("", "1:--help", "station 1: unexpected argument"),
            ("", "1:--port 1883", "station 1: the chain gives each station its --port"),
            ("--protocol http", "1:--sharing", "station 1: the chain gives each station its --protocol"),
            ("--sharing", "2:--queue 4", "station 2: with --sharing no message waits"),
            ("--pool 4", "1:--sharing", "station 2: --pool needs a next station, and the last one has none"),
        ] {
            let said = refusal(2, common, &[one]);
            assert!(said.contains(hint), "{common} {one}: {said}");
        }
    }
}

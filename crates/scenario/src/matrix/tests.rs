use super::*;

const SCENARIO: &str = "
name: several
platform: embedded
population: { devices: 1 }
load: { levels: [10] }
matrix:
  population.devices: [5, 10]
  load:
    hold: [1s, 2s, 3s]
quick:
  load.samples: 2
  matrix.load.hold: [4s]
";

const NOWHERE: Environment<'static> = Environment { profile: &|_| Err(String::new()), variable: &|_| None };

fn read_in(environment: &Environment<'_>, text: &str, quick: bool, set: &[&str]) -> Result<Matrix, String> {
    let source = SourceFile { name: "f.yaml".into(), text: text.into() };
    let overrides: Vec<Override> = set.iter().map(|text| Override::Key((*text).into())).collect();
    // Long lines are wrapped.
    let told = |found: Diagnostics| found.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    matrix(&source, quick, &overrides, environment).map_err(told)
}

fn read(text: &str, quick: bool, set: &[&str]) -> Result<Matrix, String> {
    read_in(&NOWHERE, text, quick, set)
}

/// A scenario with more lines at its end.
fn plain(lines: &str) -> String {
    format!("name: a\nplatform: embedded\npopulation: {{ devices: 1 }}\nload: {{ levels: [10] }}\n{lines}\n")
}

fn plans(matrix: &Matrix) -> Vec<Plan> {
    matrix.positions().map(|position| matrix.plan(&position, 1).unwrap()).collect()
}

fn told(matrix: &Matrix) -> Vec<(u32, f64)> {
    plans(matrix).iter().map(|plan| (plan.devices, plan.load.hold.as_secs_f64())).collect()
}

fn axes(matrix: &Matrix) -> Vec<(&str, String)> {
    matrix.axes.iter().map(|axis| (axis.key.as_str(), axis.values.join(" "))).collect()
}

#[test]
fn each_combination_is_a_plan() {
    let matrix = read(SCENARIO, false, &[]).unwrap();
    let expected = [(5, 1.0), (5, 2.0), (5, 3.0), (10, 1.0), (10, 2.0), (10, 3.0)];
    assert_eq!(told(&matrix), expected);
    assert_eq!((matrix.combinations(), matrix.first.devices), (6, 5));
    assert_eq!(matrix.positions().nth(4).unwrap(), [1, 1]);
    assert_eq!(axes(&matrix), [("population.devices", "5 10".into()), ("load.hold", "1s 2s 3s".into())]);
    let plan = matrix.plan(&[1, 2], u64::MAX).unwrap();
    assert_eq!((plan.seed, plan.devices), (u64::MAX, 10));
    assert!(plan.resolved.contains(&format!("seed: {}", u64::MAX)), "{}", plan.resolved);
}

/// What stood in files and variables when the scenario was read holds for all runs, however late.
#[test]
fn everything_is_read_once_and_shared() {
    let asked = std::cell::Cell::new(0);
    let file = |_: &str| {
        asked.set(asked.get() + 1);
        Ok(format!("v\n{}\n", asked.get()))
    };
    let environment = Environment { profile: &file, variable: &|_| Some(asked.get().to_string()) };
    let text = plain(
        "mqtt: { username: a, password: { env: P } }
message: { template: \"{marker} {feed:v}\", feed: { file: f.csv } }
matrix: { population.devices: [1, 2] }",
    );
    let matrix = read_in(&environment, &text, false, &[]).unwrap();
    let password = matrix.first.mqtt.password.clone().unwrap();
    asked.set(7);
    let plans = plans(&matrix);
    assert_eq!(asked.get(), 7, "nothing is read again");
    for plan in &plans {
        let mut row = Vec::new();
        plan.message.feed.as_ref().unwrap().write(0, 0, 0, &mut row);
        assert_eq!((row, plan.mqtt.password.as_ref()), (b"1".to_vec(), Some(&password)));
    }
}

/// The command line over the quick form over the file, in whichever form each is written.
#[test]
fn a_later_source_takes_the_place_of_an_earlier_one() {
    let text = plain(
        "matrix: { load: { hold: [1s, 2s], samples: [2, 3] }, population.devices: [5] }
quick:
  matrix: { population.devices: [2, 3], load.hold: [4s] }",
    );
    let axes = |quick, set: &[&str]| {
        axes(&read(&text, quick, set).unwrap())
            .into_iter()
            .map(|(key, values)| format!("{key} {values}"))
            .collect::<Vec<_>>()
            .join("; ")
    };
    assert_eq!(axes(true, &[]), "load.hold 4s; population.devices 2 3");
    assert_eq!(axes(true, &["matrix.population.devices=[40]"]), "load.hold 4s; population.devices 40");
    assert_eq!(axes(false, &["matrix={ load.hold: [9s] }"]), "load.hold 9s");
    assert_eq!(axes(false, &["matrix.load={ hold: [9s] }"]), "load.hold 9s; population.devices 5");
    assert_eq!(axes(false, &["matrix.load=null"]), "population.devices 5");
    assert_eq!(
        axes(false, &["matrix.load=null", "matrix.load.samples=[4]"]),
        "population.devices 5; load.samples 4"
    );
    assert_eq!(axes(false, &["matrix={}"]), "");
}

/// Both forms may stand side by side, also under one key.
#[test]
fn forms_are_mixed() {
    let text = SCENARIO.replace("  load:\n", "  population: { subscribers: [0, 1] }\n  load:\n");
    let keys: Vec<String> = read(&text, false, &[]).unwrap().axes.into_iter().map(|axis| axis.key).collect();
    assert_eq!(keys, ["population.devices", "population.subscribers", "load.hold"]);
}

#[test]
fn the_quick_form_and_the_command_line_change_what_varies() {
    let matrix = read(SCENARIO, true, &[]).unwrap();
    assert_eq!(told(&matrix), [(5, 4.0), (10, 4.0)]);
    assert_eq!(matrix.first.load.samples, 2);
    let matrix = read(SCENARIO, true, &["matrix.population.devices=[7]"]).unwrap();
    assert_eq!(told(&matrix), [(7, 4.0)]);
    let matrix = read(SCENARIO, false, &["matrix.load.hold=null", "load.hold=9s"]).unwrap();
    assert_eq!(told(&matrix), [(5, 9.0), (10, 9.0)]);
    let matrix = read(SCENARIO, false, &["matrix=null"]).unwrap();
    assert_eq!((matrix.axes.len(), matrix.combinations()), (0, 1));
    assert_eq!(matrix.one().unwrap().devices, 1);
}

#[test]
fn what_is_wrong_is_told_once_with_its_place() {
    for (line, expected) in [
        ("matrix: 5", "expected keys of the scenario, found a number"),
        ("matrix: [1, 2]", "expected keys of the scenario, found a list"),
        ("matrix: { \"\": [1, 2] }", "`` is no key such as"),
        ("matrix: { \"\": { population.devices: [1, 2] } }", "`` is no key such as"),
        ("matrix: { population..devices: [1, 2] }", "`population..devices` is no key such as"),
        ("matrix: { population.devices: 5 }", "expected a list of values, found a number"),
        ("matrix: { population.devices: [] }", "expected a list of values"),
        ("matrix: { population: {} }", "expected a list of values, found a map"),
        ("matrix: { population.devices: [1, many] }", "`population.devices`"),
        ("matrix: { population.gadgets: [1, 2] }", "unknown key `gadgets`"),
        ("matrix: { name.x: [1, 2] }", "it has no `x`"),
        ("matrix: { population.devices: [1, 2], population: { devices: [3] } }", "twice, in two forms"),
        ("matrix: { population.devices: [1, 1] }", "has the value 1 twice"),
        ("matrix: { seed: [1, 2] }", "the seed varies by itself"),
        ("matrix: { matrix.population.devices: [1, 2] }", "is nothing that can vary"),
        ("matrix: { load.hold: [1s], load: [{ levels: [1] }] }", "both `load` and `load.hold`"),
        ("matrix: { load.levels: [[1, 2]], load.levels.0: [3] }", "both `load.levels` and `load.levels.0`"),
        ("matrix: { load.levels.00: [3] }", "`00` is no index"),
        ("matrix: { schedule: [null, { every: 1h, times: 2 }] }", "a sweep has no `schedule`"),
        ("quick: 5", "expected keys of the scenario, found a number"),
        ("quick: { matrix: [1, 2] }", "expected keys of the scenario, found a list"),
        ("quick: { quick: { load.hold: 1s } }", "the quick form is set where it is written"),
    ] {
        let errors = read(&plain(line), line.starts_with("quick"), &[]).err().unwrap_or_default();
        assert!(errors.contains(expected), "{line}: {errors}");
        assert_eq!(errors.matches(expected).count(), 1, "{line}: {errors}");
        assert!(errors.contains("f.yaml:5"), "{line}: {errors}");
    }
    assert!(read(&plain(""), true, &[]).err().unwrap().contains("does not say what is quick"));
}

#[test]
fn what_is_set_wrongly_is_told_too() {
    for (set, expected) in [
        ("matrix=5", "`matrix`: expected keys of the scenario, found a number"),
        ("matrix=[1, 2]", "`matrix`: expected keys of the scenario, found a list"),
        ("matrix=text", "`matrix`: expected keys of the scenario, found a text"),
        ("matrix.=[1]", "is no key such as"),
        ("matrix.load=[{ levels: [1] }]", "both `load` and `load.hold`"),
        ("matrix.load.hold.x=[1]", "both `load.hold` and `load.hold.x`"),
        ("quick.load.hold=1s", "the quick form is set where it is written"),
    ] {
        let errors = read(SCENARIO, false, &[set]).err().unwrap_or_default();
        assert!(errors.contains(expected), "{set}: {errors}");
    }
}

/// What is too much is counted before it is looked at one by one.
#[test]
fn hostile_numbers_of_keys_and_values_are_refused() {
    let list = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
    let keys = |count: usize| (0..count).map(|number| format!("  k{number}: [1]\n")).collect::<String>();
    for (lines, quick, expected) in [
        (
            format!("matrix: {{ load.samples: [{0}], population.devices: [{0}] }}", list(200)),
            false,
            "more than 1000 combinations",
        ),
        (
            format!("matrix: {{ population.devices: [{}] }}", list(20_000)),
            false,
            "more than 1000 combinations",
        ),
        (format!("matrix:\n{}", keys(20_000)), false, "more than 100 keys"),
        (format!("quick:\n{}", keys(20_000)), true, "more than 100 keys"),
        (format!("matrix: {{ {}: {{ b: [1] }} }}", "a".repeat(2_000)), false, "is no key such as"),
    ] {
        let errors = read(&plain(&lines), quick, &[]).err().unwrap_or_default();
        assert!(errors.contains(expected), "{expected}: {errors}");
    }
}

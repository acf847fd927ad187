//! Lists the scenarios of `examples/`, which the page offers as templates. Those that need a file beside them are left out: a template
//! is one text.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The examples, from the folder of this crate: cargo starts build scripts there.
const EXAMPLES: &str = "../../examples";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={EXAMPLES}");
    let entries = fs::read_dir(EXAMPLES)?.map(|entry| Ok(entry?.path()));
    let mut files = entries.collect::<io::Result<Vec<PathBuf>>>()?;
    let others: Vec<String> =
        files.iter().filter(|file| !is_scenario(file)).map(|file| name_of(file)).collect();
    files.retain(|file| is_scenario(file));
    files.sort();
    let mut list = String::new();
    for file in &files {
        let text = fs::read_to_string(file)?;
        if others.iter().any(|other| text.contains(other.as_str())) {
            continue;
        }
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        // Writing to a String cannot fail.
        let _ = writeln!(
            list,
            "    ({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/\", {file:?}))),"
        );
    }
    let list = format!(
        "/// The examples embedded in the program by name, with their texts.\nconst EMBEDDED: &[(&str, &str)] = &[\n{list}];\n"
    );
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo gives no OUT_DIR"))?;
    fs::write(Path::new(&out).join("examples.rs"), list)
}

fn is_scenario(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "yaml")
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

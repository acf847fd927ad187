//! Lists the profiles of `platforms/` and the load balancers below it, so that a file there is all that a new one needs.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The profiles, from the folder of this crate: cargo starts build scripts there.
const PLATFORMS: &str = "../../platforms";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={PLATFORMS}");
    list(PLATFORMS, "profiles")?;
    list(&format!("{PLATFORMS}/balancers"), "balancers")
}

/// Writes a list of the files in a folder, under the name of what they are. Their paths begin at the crate that is
/// compiled, so that two clones that share what cargo built do not embed the files of the other.
fn list(folder: &str, what: &str) -> io::Result<()> {
    let files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()?;
    let mut files: Vec<PathBuf> =
        files.into_iter().filter(|file| file.extension().is_some_and(|ending| ending == "yaml")).collect();
    files.sort();
    let mut list = format!("[(&str, &str); {}] = [\n", files.len());
    for file in &files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        // Writing to a String cannot fail.
        let _ = writeln!(
            list,
            "    ({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/\", {file:?}))),"
        );
    }
    let list = format!(
        "/// The {what} embedded in the program by name, with their texts.\nconst EMBEDDED: {list}];\n"
    );
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo gives no OUT_DIR"))?;
    fs::write(Path::new(&out).join(format!("{what}.rs")), list)
}

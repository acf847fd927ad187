//! Lists the profiles of `platforms/` and the load balancers below it, so that a file there is all that a new one needs.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../platforms").canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    list(&folder, "profiles")?;
    list(&folder.join("balancers"), "balancers")
}

/// Writes a list of the files in a folder, under the name of what they are.
fn list(folder: &Path, what: &str) -> io::Result<()> {
    let files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()?;
    let mut files: Vec<PathBuf> =
        files.into_iter().filter(|file| file.extension().is_some_and(|ending| ending == "yaml")).collect();
    files.sort();
    let mut list = format!("[(&str, &str); {}] = [\n", files.len());
    for file in &files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        // Writing to a String cannot fail.
        let _ = writeln!(list, "    ({name:?}, include_str!({file:?})),");
    }
    let list = format!(
        "/// The {what} embedded in the program by name, with their texts.\nconst EMBEDDED: {list}];\n"
    );
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo gives no OUT_DIR"))?;
    fs::write(Path::new(&out).join(format!("{what}.rs")), list)
}

//! Lists the profiles of `platforms/`, so that a file there is all that a new one needs.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../platforms").canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let files =
        fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()?;
    let mut profiles: Vec<PathBuf> =
        files.into_iter().filter(|file| file.extension().is_some_and(|ending| ending == "yaml")).collect();
    profiles.sort();
    let mut list = format!("[(&str, &str); {}] = [\n", profiles.len());
    for profile in &profiles {
        let name = profile.file_stem().unwrap_or_default().to_string_lossy();
        // Writing to a String cannot fail.
        let _ = writeln!(list, "    ({name:?}, include_str!({profile:?})),");
    }
    let list = format!(
        "/// The profiles embedded in the program by name, with their texts.\nconst EMBEDDED: {list}];\n"
    );
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo gives no OUT_DIR"))?;
    fs::write(Path::new(&out).join("profiles.rs"), list)
}

//! The files that a command is to write: none may be another one of them, or what it reads.

use crate::failure::Failure;
use std::io;
use std::path::{Path, PathBuf};

/// The run store's option, which tells by itself where it cannot be written, and what to do.
const STORE: &str = "--store";

/// Refuses outputs that would overwrite each other, the store or the scenario, or that have no folder. The store is the first.
pub fn check(
    store: &Path,
    scenario: Option<&Path>,
    outputs: &[(&str, Option<&Path>)],
) -> Result<(), Failure> {
    let mut known: Vec<(&str, PathBuf)> = Vec::new();
    known.extend(scenario.and_then(|file| Some(("the scenario", file.canonicalize().ok()?))));
    for &(name, path) in [(STORE, Some(store))].iter().chain(outputs) {
        let Some(path) = path else { continue };
        let whole = match whole(path) {
            Ok(whole) => whole,
            Err(_) if name == STORE => continue,
            Err(error) => return Err(Failure::unwritable(path, &error)),
        };
        if let Some((other, _)) = known.iter().find(|(_, known)| *known == whole) {
            let path = path.display();
            return Err(Failure::Usage(format!("{name} and {other} are the same file: {path}")));
        }
        known.push((name, whole));
    }
    Ok(())
}

/// The file that a path leads to, whether it is there already or not.
fn whole(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize().or_else(|_| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
        Ok(folder.join(path.file_name().unwrap_or_default()))
    })
}

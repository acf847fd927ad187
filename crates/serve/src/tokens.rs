//! Who may look, and who may start and stop runs: whoever has the token of the one or the other. Tokens are kept in the folder, so that
//! pages that are open survive a restart of the server. Removing the file makes new ones.

use ring::rand::{SecureRandom, SystemRandom};
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use subtle::ConstantTimeEq;

/// The file in the private folder.
const FILE: &str = "tokens";
/// Nobody else may read it.
const MODE: u32 = 0o600;
/// Bytes of a token: too many to be guessed.
const BYTES: usize = 32;

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Look.
    Viewer,
    /// Also write scenarios, start runs and stop them.
    Operator,
}

/// The tokens of a page.
pub struct Tokens {
    operator: String,
    viewer: String,
}

impl Tokens {
    /// Reads the tokens that are kept in a folder, or makes them.
    ///
    /// # Errors
    /// The file cannot be read or made, others may read it, or it holds something else.
    pub fn kept_in(folder: &Path) -> io::Result<Tokens> {
        let path = folder.join(FILE);
        let made = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&path);
        match made {
            Ok(mut file) => {
                let tokens = Tokens { operator: fresh()?, viewer: fresh()? };
                writeln!(file, "{}\n{}", tokens.operator, tokens.viewer)?;
                Ok(tokens)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Tokens::read(&path),
            Err(error) => Err(error),
        }
    }

    fn read(path: &Path) -> io::Result<Tokens> {
        if fs::symlink_metadata(path)?.mode() & 0o077 != 0 {
            let told = format!("others may read {}: remove it, and new tokens are made", path.display());
            return Err(io::Error::new(ErrorKind::PermissionDenied, told));
        }
        let text = fs::read_to_string(path)?;
        let mut lines = text.lines().map(str::to_owned).filter(|line| is_token(line));
        match (lines.next(), lines.next()) {
            (Some(operator), Some(viewer)) => Ok(Tokens { operator, viewer }),
            _ => {
                let told = format!("{} holds no tokens: remove it, and new ones are made", path.display());
                Err(io::Error::new(ErrorKind::InvalidData, told))
            }
        }
    }

    /// What somebody may do who shows that token; `None` where it is none. The time that this takes says nothing of the tokens.
    pub fn role(&self, shown: &str) -> Option<Role> {
        let is_operator = self.operator.as_bytes().ct_eq(shown.as_bytes());
        let is_viewer = self.viewer.as_bytes().ct_eq(shown.as_bytes());
        match (bool::from(is_operator), bool::from(is_viewer)) {
            (true, _) => Some(Role::Operator),
            (_, true) => Some(Role::Viewer),
            _ => None,
        }
    }

    /// The token of operators.
    pub fn operator(&self) -> &str {
        &self.operator
    }

    /// The token of viewers.
    pub fn viewer(&self) -> &str {
        &self.viewer
    }
}

fn is_token(text: &str) -> bool {
    text.len() == 2 * BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A token that nobody could know before.
fn fresh() -> io::Result<String> {
    random(BYTES)
}

/// So many random bytes, as hexadecimal digits.
///
/// # Errors
/// The kernel gives none.
pub fn random(bytes: usize) -> io::Result<String> {
    let mut drawn = vec![0; bytes];
    SystemRandom::new().fill(&mut drawn).map_err(|_| io::Error::other("the kernel gives no random bytes"))?;
    let mut text = String::with_capacity(2 * bytes);
    for byte in drawn {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn tokens_stay_and_each_has_its_role() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::kept_in(folder.path()).unwrap();
        assert_eq!(tokens.role(tokens.operator()), Some(Role::Operator));
        assert_eq!(tokens.role(tokens.viewer()), Some(Role::Viewer));
        assert_ne!(tokens.operator(), tokens.viewer());
        for wrong in ["", "x", &tokens.operator()[1..], &format!("{}0", tokens.operator())] {
            assert_eq!(tokens.role(wrong), None);
        }
        let again = Tokens::kept_in(folder.path()).unwrap();
        assert_eq!(again.operator(), tokens.operator());
        let file = folder.path().join(FILE);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, MODE);
        assert!(is_token(tokens.viewer()));
    }

    #[test]
    fn a_file_that_others_read_or_that_holds_something_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        drop(Tokens::kept_in(folder.path()).unwrap());
        let file = folder.path().join(FILE);
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        assert!(Tokens::kept_in(folder.path()).is_err());
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        // An empty token would be one that everybody has.
        fs::write(&file, "\n\n").unwrap();
        assert!(Tokens::kept_in(folder.path()).is_err());
    }
}

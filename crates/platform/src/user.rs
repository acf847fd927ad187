//! The user that a component runs as.

use rustix::process::geteuid;
use std::fs;
use std::io;

/// A user of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The user's number.
    pub id: u32,
    /// The number of the user's own group.
    pub group: u32,
    /// The user's home.
    pub home: String,
}

/// Who a component becomes: the user of that name where we may change, which only root may. `None` where we may not: then it
/// runs as who runs Plimsoll.
///
/// # Errors
/// There is no such user.
pub fn to_become(name: &str) -> Option<io::Result<User>> {
    let found = || {
        let users = fs::read_to_string("/etc/passwd")?;
        find(&users, name).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("this host has no user `{name}` in /etc/passwd"))
        })
    };
    geteuid().is_root().then(found)
}

/// Finds a user in the text of `/etc/passwd` (passwd(5)).
fn find(users: &str, name: &str) -> Option<User> {
    let mut lines = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let line = lines.find(|fields| fields.first() == Some(&name))?;
    let home = (*line.get(5)?).to_owned();
    Some(User { id: line.get(2)?.parse().ok()?, group: line.get(3)?.parse().ok()?, home })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_the_whole_name() {
        let users =
            "root:x:0:0:root:/root:/bin/bash\nmy:x:7:8::/:/bin/sh\nmysql:x:101:102::/var/lib:/bin/sh\n";
        assert_eq!(find(users, "mysql"), Some(User { id: 101, group: 102, home: "/var/lib".into() }));
        assert_eq!(find(users, "my"), Some(User { id: 7, group: 8, home: "/".into() }));
        assert_eq!(find(users, "sql"), None);
        assert_eq!(find("broken\nbroken:x:no", "broken"), None);
    }
}

//! Files and variables that reading a scenario or a profile needs.

/// What reading a scenario needs of the world outside.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// Reads a file that the scenario names, a profile or a certificate, by its path as written, relative to the
    /// scenario's folder; the error says why not.
    pub profile: &'a dyn Fn(&str) -> Result<String, String>,
    /// Looks up an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

/// Gives the text of a file by its path relative to a profile's folder, or says why there is none.
pub type ReadFile<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

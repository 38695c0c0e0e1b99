//! A server's own directory.

use std::fs;
use std::path::{Path, PathBuf};

/// A directory that is removed with the value.
#[derive(Debug)]
pub(super) struct Dir(PathBuf);

impl Dir {
    /// Creates the directory of the server on this port, which this process has claimed.
    pub(super) fn create(port: u16) -> Self {
        let name = format!("fredlock-server-{}-{port}", std::process::id());
        // Without links in it, as the watchdog compares it with where the server is.
        let parent = std::env::temp_dir()
            .canonicalize()
            .expect("directory for temporary files");
        let dir = Self(parent.join(name));
        // The port is claimed, so whatever bears this name was left behind by an earlier process of
        // the same id.
        if dir.0.exists() {
            fs::remove_dir_all(&dir.0).expect("removed what an earlier process left behind");
        }
        fs::create_dir(&dir.0)
            .unwrap_or_else(|error| panic!("cannot create {}: {error}", dir.0.display()));
        dir
    }

    /// Where it is, without symbolic links in it.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("could not remove {}: {error}", self.0.display());
        }
    }
}

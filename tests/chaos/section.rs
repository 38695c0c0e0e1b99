//! The critical sections, as files: whoever enters creates one, which must not be there.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::record::HoldId;

/// One section for each resource.
#[derive(Debug, Clone)]
pub(crate) struct Sections(PathBuf);

/// Somebody is in. Leaving is dropping it.
#[derive(Debug)]
pub(crate) struct Inside {
    path: PathBuf,
    holder: HoldId,
}

impl Sections {
    pub(crate) fn in_dir(dir: &Path) -> Self {
        Self(dir.to_owned())
    }

    /// Enters, and tells whom it finds inside: somebody whose validity is over, and who does not
    /// know yet, if all is well.
    pub(crate) fn enter(&self, resource: usize, holder: HoldId) -> (Inside, Option<HoldId>) {
        let path = self.0.join(format!("section-{resource}"));
        let mut found = None;
        // A link that leads nowhere: it is created exclusively, and in one step with its holder's
        // name in it.
        while let Err(error) = symlink(holder.0.to_string(), &path) {
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{error}");
            found = inside(&path).or(found);
            fs::remove_file(&path).ok();
        }
        (Inside { path, holder }, found)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Whoever came after a holder that was paused has taken its place.
        if inside(&self.path) == Some(self.holder) {
            fs::remove_file(&self.path).ok();
        }
    }
}

fn inside(path: &Path) -> Option<HoldId> {
    let link = fs::read_link(path).ok()?;
    link.to_str()?.parse().ok().map(HoldId)
}

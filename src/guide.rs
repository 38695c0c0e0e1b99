//! The documents of the repository, to be read here. No code is in it, and no build but the documentation's has it.
//!
//! Start with the [crate's page](crate). These are for later.

// In CommonMark the first definition of a link counts. So the documents' own ones, which are paths in the repository,
// stand for whoever reads them there, and those of links.md, which come before them, for whoever reads them here.
macro_rules! document {
    ($(#[$about:meta])* $name:ident, $path:literal) => {
        $(#[$about])*
        #[doc = ""]
        #[doc = include_str!("guide/links.md")]
        #[doc = include_str!($path)]
        pub mod $name {}
    };
}

document!(
    /// The protocol as it is implemented, why each rule is there, and what is not guaranteed.
    design, "../DESIGN.md"
);
document!(
    /// How to make what you protect refuse an earlier holder: PostgreSQL, Redis and Valkey, files, object stores.
    fencing, "../docs/fencing.md"
);
document!(
    /// When PostgreSQL's own locks do the job better.
    postgresql, "../docs/postgresql.md"
);
document!(
    /// Every setting, with its default, its range and its name in node-redlock; and how waiting works.
    settings, "../docs/settings.md"
);
document!(
    /// Masters: how many, their settings, those that forget, what to watch, servers, TLS, permissions.
    operating, "../docs/operating.md"
);
document!(
    /// What an error text means, and what to do.
    troubleshooting, "../docs/troubleshooting.md"
);
document!(
    /// The command-line tool, in detail.
    tool, "../docs/tool.md"
);
document!(
    /// For those who come from node-redlock.
    from_node_redlock, "../docs/from-node-redlock.md"
);
document!(
    /// What other lock clients do.
    comparison, "../docs/comparison.md"
);

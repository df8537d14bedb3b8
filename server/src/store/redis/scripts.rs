//! The scripts that run inside Redis: each is one step that nobody sees half done.

use std::sync::LazyLock;

use redis::Cmd;

/// A script and the name that Redis knows it by.
pub(super) struct Script {
    text: &'static str,
    hash: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }

    /// Makes the server know it.
    pub(super) fn load(&self) -> Cmd {
        redis::cmd("SCRIPT").arg("LOAD").arg(self.text).to_owned()
    }

    /// Runs it on `keys`; the arguments are to follow.
    pub(super) fn run(&self, keys: &[String]) -> Cmd {
        redis::cmd("EVALSHA").arg(&self.hash).arg(keys.len()).arg(keys).to_owned()
    }
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $($file:literal)+;)*) => {
        $($(#[$doc])*
        pub(super) fn $name() -> &'static Script {
            static SCRIPT: LazyLock<Script> =
                LazyLock::new(|| Script::new(concat!($(include_str!($file)),+)));
            &SCRIPT
        })*

        /// All of them, for a new connection to load.
        pub(super) fn all() -> Vec<&'static Script> {
            vec![$($name()),*]
        }
    };
}

scripts! {
    /// One small change of the catalogue.
    commit = "scripts/commit.lua";
    /// A part of a large change.
    stage = "scripts/stage.lua";
    /// A large change becomes visible.
    flip = "scripts/flip.lua";
    /// A part of what is visible becomes usual.
    fold = "scripts/fold.lua";
    /// Objects by name.
    get = "scripts/get.lua";
    /// An object by its serial.
    by_serial = "scripts/by_serial.lua";
    /// Objects in order.
    list = "scripts/list.lua";
    /// What changed.
    delta = "scripts/delta.lua";
    /// Who fills an empty store.
    offer = "scripts/offer.lua";
    /// A node says how it is.
    report = "scripts/report.lua";
    /// What the nodes have said.
    nodes = "scripts/nodes.lua";
    /// A part of what it is filled with.
    restore = "scripts/restore.lua";
    /// Adds estimates to an account's documents.
    increments_add = "scripts/increments_add.lua";
    /// Reads a visitor's profile where it has changed.
    profile_read = "scripts/profile_read.lua";
    /// Adds exposures to a visitor's profile.
    profile_add = "scripts/profile.lua" "scripts/profile_add.lua";
    /// Frees a place in a visitor's profile that is held.
    profile_release = "scripts/profile.lua" "scripts/profile_release.lua";
    /// Admits ads whose caps hold on all nodes.
    profile_strict = "scripts/profile.lua" "scripts/profile_strict.lua";
    /// Changes a visitor's segments.
    profile_segments = "scripts/profile.lua" "scripts/profile_segments.lua";
    /// Forgets a visitor in one account.
    profile_forget = "scripts/profile.lua" "scripts/profile_forget.lua";
    /// Tells all nodes that a visitor was forgotten.
    profile_forgets_add = "scripts/profile_forgets_add.lua";
    /// Which visitors were forgotten.
    profile_forgets_since = "scripts/profile_forgets_since.lua";
}

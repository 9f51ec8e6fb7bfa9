//! One mistake each, made by the driver around the shipped calls.

/// A mistake that an implementation of delivery could make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutant {
    /// A restored sender is found by `mark >= next` alone.
    CounterWithoutChain,
    /// A restored sender is not looked for.
    NoEpochCheck,
    /// Nothing is recorded about restored disks.
    RollbackUnreported,
    /// A parcel after a hole is taken.
    AcceptsHoles,
    /// What was taken is remembered in memory only.
    MarkInMemory,
    /// The effect happens before the commit that marks it done.
    EffectOutsideTransaction,
    /// The mark is committed first, then the effect.
    MarkBeforeEffect,
    /// A parcel is acknowledged before the commit.
    AckBeforeCommit,
    /// A parcel is put on the wire before the commit that queues it.
    SendBeforeCommit,
    /// Parcels of replaced sessions are taken.
    NoFence,
    /// Applied messages are not remembered by their id.
    ForgetsMessages,
    /// A deadline that passes is taken to mean that nothing ran.
    TimeoutMeansNotRun,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::CounterWithoutChain,
        Self::NoEpochCheck,
        Self::RollbackUnreported,
        Self::AcceptsHoles,
        Self::MarkInMemory,
        Self::EffectOutsideTransaction,
        Self::MarkBeforeEffect,
        Self::AckBeforeCommit,
        Self::SendBeforeCommit,
        Self::NoFence,
        Self::ForgetsMessages,
        Self::TimeoutMeansNotRun,
    ];

    /// The mutant of this name, as the command line spells it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|mutant| format!("{mutant:?}").eq_ignore_ascii_case(&name.replace('-', "")))
    }
}

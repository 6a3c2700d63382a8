//! Switches that each break one rule, so that the simulator can prove that it would notice.

/// One rule to break.
#[cfg_attr(
    not(feature = "sabotage"),
    expect(unreachable_pub, reason = "public only with the feature")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// A message enters without leaving the inbox.
    DoubleConsume,
    /// Results are committed as they settle.
    ResultOutOfOrder,
    /// Bodies with effects start before their barrier.
    SkipToolBarrier,
    /// Requests leave before their barrier.
    SkipRequestBarrier,
    /// A body that failed is started again.
    RerunTool,
    /// A cancel that clears the inbox leaves one message in it.
    DropCanceledSplice,
    /// Repair leaves one call without result.
    ForgetRepair,
    /// Calls of a cut answer stay in its message.
    KeepCutCalls,
    /// A second cancel changes the cause.
    LastCauseWins,
    /// A wake during a cancel is forgotten.
    LoseWake,
    /// One body more than the pool holds.
    PoolOverrun,
    /// An empty answer becomes a message.
    EmptyAnswer,
    /// New limits reach a turn that has gone on.
    LimitsMidTurn,
    /// A turn that a limit ended before its first step is followed by itself.
    FollowNothing,
}

#[cfg(feature = "sabotage")]
impl Sabotage {
    /// Every switch.
    pub const ALL: [Self; 14] = [
        Self::DoubleConsume,
        Self::ResultOutOfOrder,
        Self::SkipToolBarrier,
        Self::SkipRequestBarrier,
        Self::RerunTool,
        Self::DropCanceledSplice,
        Self::ForgetRepair,
        Self::KeepCutCalls,
        Self::LastCauseWins,
        Self::LoseWake,
        Self::PoolOverrun,
        Self::EmptyAnswer,
        Self::LimitsMidTurn,
        Self::FollowNothing,
    ];
}

//! Logs that are read back: what contradicts itself is refused with the number and the reason,
//! what is not known is kept or makes the session read-only.

use reins_schema::{
    Draft, EndSeed, Event, InboxSpliced, InboxTarget, Payload, Purpose, SessionRecovered, Source,
    SourceRange, StepEnd, StepStart, SurfaceOp, TurnEnd, TurnEndReason, TurnStart, UserMessage,
};
use reins_session::{
    Applied, Core, Effect, EventType, Fold, FoldError, Input, KnownTypes, Limits, NodeKind, Status,
    Untold,
};
use serde_json::value::RawValue;

use crate::made;
use crate::transcripts::Stage;

/// Turn 1 with one call that was answered and one that was not.
const OPEN: &str = "
    send a go
    call c1 edit
    call c2 edit
    finish calls
    prepare ro
    prepare needs-alone
    done c1
";

fn folded(script: &str) -> Fold {
    let mut fold = made::empty_fold();
    for event in Stage::log(script) {
        if let Err(problem) = fold.apply(&event) {
            panic!("{problem}");
        }
    }
    fold
}

fn next(fold: &Fold, payload: impl Into<Payload>) -> Event {
    match payload.into().draft(Vec::new()) {
        Ok(body) => Event { seq: fold.next_seq(), time: 0, body },
        Err(problem) => panic!("{problem}"),
    }
}

/// The event is refused in these words, and nothing has changed.
fn refused(fold: &mut Fold, event: &Event, words: &str) {
    let before = fold.clone();
    match fold.apply(event) {
        Ok(()) => panic!("event {} is taken; expected: {words}", event.seq),
        Err(problem) => assert_eq!(problem.to_string(), words),
    }
    assert!(*fold == before, "a refused event has changed the fold: {words}");
}

fn foreign(fold: &Fold, kind: &str, v: Option<u32>, ignorable: bool) -> Event {
    let data = RawValue::from_string("{\"x\":[1,2]}".to_owned()).unwrap_or_default();
    let body =
        Draft { kind: kind.to_owned(), v, data, surface: None, sources: Vec::new(), ignorable };
    Event { seq: fold.next_seq(), time: 0, body }
}

#[test]
fn gaps_and_wrong_envelopes_are_refused() {
    let mut fold = folded(OPEN);
    let seq = fold.next_seq();
    let mut event = next(&fold, StepEnd { turn: 1, step: 1 });
    event.seq += 1;
    let words = format!("event {seq} is expected here, found event {}", seq + 1);
    refused(&mut fold, &event, &words);

    let mut event = next(&fold, StepEnd { turn: 1, step: 1 });
    event.body.surface = Some(SurfaceOp::Append);
    let words = format!("event {seq} `step/end`: this type takes no `surface`");
    refused(&mut fold, &event, &words);

    let message = made::message("z", "z");
    let mut event = next(&fold, UserMessage { message, inbox: Vec::new() });
    event.body.surface = None;
    let words = format!("event {seq} `user/message`: this type needs `surface`");
    refused(&mut fold, &event, &words);

    let mut event = foreign(&fold, made::NOTE, Some(1), true);
    event.body.sources = vec![SourceRange::One(seq)];
    let words = format!("event {seq} `test/note`: source {seq} is not an earlier event");
    refused(&mut fold, &event, &words);
    event.body.sources = vec![SourceRange::One(3), SourceRange::Range(2, 4)];
    let words = format!("event {seq} `test/note`: `sources` are not ascending without overlap");
    refused(&mut fold, &event, &words);
}

#[test]
fn a_core_type_with_another_shape_is_refused() {
    let mut fold = made::empty_fold();
    let event = foreign(&fold, "turn/start", None, false);
    refused(&mut fold, &event, "event 0: `turn/start`: missing field `turn` at line 1 column 11");
}

#[test]
fn turns_and_steps_nest_and_are_counted() {
    let mut fold = folded(OPEN);
    let seq = fold.next_seq();
    let at = |kind: &str, problem: &str| format!("event {seq} `{kind}`: {problem}");
    let event = next(&fold, TurnStart { turn: 2 });
    refused(&mut fold, &event, &at("turn/start", "turn 1 is still open"));
    let event = next(&fold, TurnEnd { turn: 1, reason: TurnEndReason::Completed });
    refused(&mut fold, &event, &at("turn/end", "a step is still open"));
    let event = next(&fold, StepStart { turn: 1, step: 2 });
    refused(&mut fold, &event, &at("step/start", "a step is still open"));
    let event = next(&fold, StepEnd { turn: 2, step: 1 });
    refused(&mut fold, &event, &at("step/end", "turn 1 is open, not turn 2"));
    let event = next(&fold, StepEnd { turn: 1, step: 1 });
    refused(&mut fold, &event, &at("step/end", "call `c2` has no result"));

    let mut fold = made::empty_fold();
    let event = next(&fold, TurnStart { turn: 2 });
    refused(&mut fold, &event, "event 0 `turn/start`: turn 2 does not follow turn 0");
}

#[test]
fn results_answer_the_next_open_call_once() {
    let log = Stage::log(OPEN);
    let mut fold = folded(OPEN);
    let seq = fold.next_seq();
    let result = log.iter().find(|event| event.body.kind == "tool/result");
    let Some(result) = result else { panic!("no result was written") };
    let again = Event { seq, time: 0, body: result.body.clone() };
    let words = format!("event {seq} `tool/result`: call `c2` is answered first");
    refused(&mut fold, &again, &words);
}

#[test]
fn a_result_replaces_one_result_and_only_its_content() {
    let log = Stage::log(OPEN);
    let mut fold = folded(OPEN);
    let seq = fold.next_seq();
    let Some(old) = log.iter().find(|event| event.body.kind == "tool/result") else {
        panic!("no result was written")
    };
    let mut body = old.body.clone();
    body.surface = Some(SurfaceOp::Replace(old.seq, old.seq));
    body.sources = vec![SourceRange::One(old.seq)];
    let text = |from: &str, to: &str, body: &Draft| {
        let data = RawValue::from_string(body.data.get().replace(from, to)).unwrap_or_default();
        Event { seq, time: 0, body: Draft { data, ..body.clone() } }
    };
    let words =
        format!("event {seq} `tool/result`: a result replaces one result, and only its content");
    refused(&mut fold, &text("\"step\":1", "\"step\":2", &body), &words);
    refused(&mut fold, &text("\"id\":\"s/", "\"id\":\"t/", &body), &words);
    let mut wide = text("\"text\":\"result\"", "\"text\":\"short\"", &body);
    wide.body.surface = Some(SurfaceOp::Replace(3, old.seq));
    wide.body.sources = vec![SourceRange::Range(3, old.seq)];
    refused(&mut fold, &wide, &words);

    let mut uncited = text("\"text\":\"result\"", "\"text\":\"short\"", &body);
    uncited.body.sources.clear();
    let missing =
        format!("event {seq} `tool/result`: `sources` lack the shadowed event {}", old.seq);
    refused(&mut fold, &uncited, &missing);

    let generation = fold.surface().generation();
    let shorter = text("\"text\":\"result\"", "\"text\":\"short\"", &body);
    assert_eq!(fold.apply(&shorter), Ok(()));
    assert_eq!(fold.surface().generation(), generation + 1);
    assert_eq!(fold.surface().position(old.seq), None);
    assert_eq!(fold.surface().position(seq), Some(2));
    assert_eq!(reins_session::check(&fold), Ok(()));
}

#[test]
fn an_invalid_splice_names_its_number() {
    let mut fold = folded("queue a one");
    let splice = |removed: &[&str], inserted: &[&str], at, outcome| InboxSpliced {
        target: InboxTarget::NextTurn,
        at,
        inserted: inserted.iter().map(|id| made::message(id, "x")).collect(),
        removed: removed.iter().map(|id| made::message(id, "").id).collect(),
        outcome,
    };
    let canceled = Some(reins_schema::SpliceOutcome::Canceled);
    let at = |problem: &str| format!("event 1 `agent/inbox/spliced`: {problem}");
    for (splice, problem) in [
        (splice(&[], &[], None, None), "nothing is put in or taken out"),
        (splice(&["b"], &[], None, canceled), "message `b` is not waiting"),
        (splice(&["a", "a"], &[], None, canceled), "message `a` is taken out twice"),
        (splice(&[], &["a"], None, None), "message id `a` was used before"),
        (splice(&[], &["b", "b"], None, None), "message id `b` was used before"),
        (splice(&[], &["b"], Some(2), None), "`at` is past the end of the queue, which holds 1"),
        (splice(&["a"], &[], None, None), "an outcome says why input leaves, and stands only then"),
        (
            splice(&["a"], &["a"], None, canceled),
            "an outcome says why input leaves, and stands only then",
        ),
    ] {
        let event = next(&fold, splice);
        refused(&mut fold, &event, &at(problem));
    }
}

#[test]
fn a_fork_inherits_what_was_said_and_not_what_waited() {
    let mut fold = folded("send a go\ntext ok\nfinish stop\nqueue b later");
    let event = next(&fold, EndSeed {});
    assert_eq!(fold.apply(&event), Ok(()));
    assert!(fold.inbox().is_empty(), "the parent's input stays with the parent");
    assert!(fold.is_used(&made::message("b", "").id), "its id stays used");
    assert_eq!(fold.last_turn(), 1);
    assert_eq!(fold.surface().nodes().len(), 2);

    let mut fold = folded(OPEN);
    let event = next(&fold, EndSeed {});
    let seq = fold.next_seq();
    let words =
        format!("event {seq} `session/end-seed`: a seed ends between turns, and a turn is open");
    refused(&mut fold, &event, &words);
}

#[test]
fn what_may_be_skipped_is_skipped() {
    for (kind, v, ignorable) in
        [("other/thing", None, true), (made::NOTE, Some(1), false), (made::NOTE, Some(9), true)]
    {
        let mut fold = folded(OPEN);
        let event = foreign(&fold, kind, v, ignorable);
        assert_eq!(fold.apply(&event), Ok(()));
        assert_eq!(fold.read_only(), None, "{kind} {v:?} may be skipped");
    }
}

#[test]
fn an_unknown_required_type_makes_the_session_read_only() {
    for (kind, v) in [("other/thing", Some(2)), (made::NOTE, Some(9))] {
        let mut fold = folded(OPEN);
        let event = foreign(&fold, kind, v, false);
        assert_eq!(fold.apply(&event), Ok(()));
        let reason = fold.read_only().map(str::to_owned).unwrap_or_default();
        assert!(reason.contains(kind), "{reason}");
        let mut core = Core::new(fold, Limits::default());
        let opened = core.step(1, Input::Opened { recovered: Vec::new() });
        assert!(matches!(opened.as_slice(), [Effect::Status(Status::Idle)]), "{opened:?}");
        let message = made::message("z", "go");
        let target = InboxTarget::NextTurn;
        let sent = core.step(2, Input::Send { message, target, wake: true });
        match sent.as_slice() {
            [Effect::SendAnswered { result: Err(refusal), .. }] => {
                assert!(refusal.0.contains("read-only"), "{refusal}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// `use_types` is the core's; nothing else changes what a fold knows.
fn told_types(fold: Fold, known: KnownTypes) -> Core {
    let mut core = Core::new(fold, Limits::default());
    core.step(1, Input::Opened { recovered: Vec::new() });
    assert!(core.step(2, Input::UseTypes(known)).is_empty());
    core
}

fn types(version: u32, keep_last: bool) -> KnownTypes {
    let of = EventType { version, ignorable: false, keep_last };
    KnownTypes::from_iter([("other/thing".to_owned(), of)])
}

#[test]
fn read_only_follows_the_types_that_are_known() {
    let mut fold = made::empty_fold();
    for v in [Some(2), None, Some(1), Some(5), Some(3), Some(7)] {
        let event = foreign(&fold, "other/thing", v, false);
        assert_eq!(fold.apply(&event), Ok(()));
    }
    let first = "event 0 has the type `other/thing` version 2, which this version of Reins does \
                 not know; upgrade Reins, or turn on the plugin that wrote it";
    assert_eq!(fold.read_only(), Some(first));
    for (known, event) in [
        (types(1, false), Some("event 0 ")),
        (types(2, false), Some("event 3 ")),
        (types(6, false), Some("event 5 ")),
        (types(7, false), None),
        (KnownTypes::default(), Some("event 0 ")),
    ] {
        let core = told_types(fold.clone(), known);
        let reason = core.fold().read_only();
        assert_eq!(reason.is_some(), event.is_some(), "{reason:?}");
        let begins = reason.zip(event).is_none_or(|(reason, event)| reason.starts_with(event));
        assert!(begins, "{reason:?}, not {event:?}");
    }
    let mut back = told_types(fold, types(9, false));
    let message = made::message("z", "go");
    let sent = back.step(3, Input::Send { message, target: InboxTarget::NextTurn, wake: false });
    assert!(matches!(sent.last(), Some(Effect::SendAnswered { result: Ok(_), .. })), "{sent:?}");
}

#[test]
fn the_last_event_of_a_type_is_kept_when_its_owner_wants_that() {
    let mut fold = Fold::new(made::header(), types(2, true));
    assert_eq!(fold.last_of("other/thing"), None);
    for v in [Some(2), Some(1)] {
        let event = foreign(&fold, "other/thing", v, false);
        assert_eq!(fold.apply(&event), Ok(()));
        let skipped = foreign(&fold, "skipped/thing", v, true);
        assert_eq!(fold.apply(&skipped), Ok(()));
        assert_eq!(fold.last_of("other/thing"), Some(&event));
    }
    assert_eq!(fold.last_of("skipped/thing"), None, "nobody registered it");
    let core = told_types(fold, KnownTypes::default());
    let last = core.fold().last_of("other/thing").map(|event| event.seq);
    assert_eq!(last, Some(2), "what was kept stays, also without its owner");
}

#[test]
fn the_last_snapshot_of_each_plugin_is_kept() {
    let mut fold = folded("send a go");
    let seq = fold.next_seq();
    for (id, plugin, form) in
        [("x", "p", Some("snapshot")), ("y", "q", Some("snapshot")), ("z", "p", Some("notice"))]
    {
        let mut message = made::message(id, id);
        let (plugin, form) = (plugin.to_owned(), form.map(str::to_owned));
        message.source = Source::Plugin { plugin, form };
        let mut event = next(&fold, UserMessage { message, inbox: Vec::new() });
        // The request has left, but a replace may come at any time.
        let place = fold.surface().nodes()[0].seq;
        event.body.surface = Some(SurfaceOp::Replace(place, place));
        event.body.sources = vec![SourceRange::One(place)];
        assert_eq!(fold.apply(&event), Ok(()));
    }
    let told = |plugin: &str| fold.last_told(plugin).map(|message| message.text());
    assert_eq!(told("p").as_deref(), Some("x"), "a notice is none, and it may be shadowed");
    assert_eq!(told("q").as_deref(), Some("y"));
    assert_eq!(told("r"), None);
    assert_eq!(fold.next_seq(), seq + 3);
}

#[test]
fn every_finding_of_the_store_is_written_down_before_repair() {
    let found = |damage: &str| SessionRecovered {
        damage: damage.to_owned(),
        ..SessionRecovered::default()
    };
    let mut core = Core::new(folded(OPEN), Limits::default());
    let effects = core.step(1, Input::Opened { recovered: vec![found("one"), found("two")] });
    let kinds: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Append(event) => Some(event.body.kind.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(kinds[..3], ["session/recovered", "session/recovered", "tool/result"]);
    assert_eq!(kinds.last(), Some(&"session/repaired"));
}

/// One call that was answered.
const ANSWERED: &str = "
    send a go
    call c1 edit
    finish calls
    prepare ro
    done c1
";

/// That log without the events of one type.
fn without(kind: &str) -> Fold {
    let mut fold = made::empty_fold();
    for event in Stage::log(ANSWERED).iter().filter(|event| event.body.kind != kind) {
        fold.lose(event.seq);
        let folded = fold.apply_or_set_aside(event);
        assert!(folded.is_ok(), "{folded:?}");
    }
    fold
}

#[test]
fn a_lost_result_is_an_unknown_outcome_at_its_own_number() {
    let fold = without("tool/result");
    let results = fold.surface().nodes().iter().filter(|node| node.kind == NodeKind::ToolResult);
    let results: Vec<_> = results.map(|node| (node.seq, node.message.content.clone())).collect();
    let lost = Stage::log(ANSWERED).iter().find(|e| e.body.kind == "tool/result").map(|e| e.seq);
    assert_eq!(results.first().map(|(seq, _)| *seq), lost);
    for (_, content) in &results {
        let text = format!("{content:?}");
        assert!(text.contains("Its effects may have happened"), "{text}");
    }
    let untold = fold.untold();
    assert_eq!(untold.lost, lost.map(SourceRange::One).into_iter().collect::<Vec<_>>());
    assert_eq!(reins_session::check(&fold), Ok(()));
}

#[test]
fn calls_of_a_lost_answer_are_set_aside_and_told_once() {
    let mut fold = without("assistant/message");
    let nodes: Vec<_> = fold.surface().nodes().iter().map(|node| node.kind).collect();
    assert_eq!(nodes, [NodeKind::User], "no result stands without its call");
    let Untold { lost, aside } = fold.untold();
    assert!(lost.len() == 1 && !aside.is_empty(), "{lost:?} {aside:?}");
    let recovered = SessionRecovered { lost, aside, ..SessionRecovered::default() };
    let event = next(&fold, recovered);
    assert_eq!(fold.apply(&event), Ok(()));
    assert_eq!(fold.untold(), Untold::default());
}

#[test]
fn without_a_loss_nothing_is_bent() {
    let mut fold = folded(OPEN);
    let before = fold.clone();
    let event = next(&fold, StepEnd { turn: 1, step: 1 });
    let aside = fold.apply_or_set_aside(&event);
    assert!(matches!(aside, Ok(Applied::Aside(FoldError::Rule { .. }))), "{aside:?}");
    assert_eq!(fold.unanswered(), before.unanswered(), "the call may still be answered");
    assert_eq!(fold.next_seq(), before.next_seq() + 1);
    let again = fold.apply_or_set_aside(&event);
    assert!(matches!(again, Err(FoldError::Order { .. })), "{again:?}");
}

#[test]
fn views_tell_what_was_folded() {
    let fold = folded(OPEN);
    assert_eq!(fold.last_turn(), 1);
    assert_eq!(fold.open_turn().map(|turn| (turn.number(), turn.steps())), Some((1, 1)));
    assert_eq!(fold.open_step().map(|step| step.attempt()), Some(1));
    let open: Vec<_> = fold.unanswered().iter().map(|open| open.call.id.as_str()).collect();
    assert_eq!(open, ["c2"]);
    assert_eq!(fold.last_sent(Purpose::Turn).map(|sent| sent.items), Some(1));
    assert!(fold.last_sent(Purpose::Summary).is_none());
    assert_eq!(fold.request_context().map(|context| context.model.as_str()), Some("m"));
    assert_eq!(fold.request_header().map(|header| header.config.model.as_str()), Some("m"));
    assert_eq!(reins_session::check(&fold), Ok(()));
}

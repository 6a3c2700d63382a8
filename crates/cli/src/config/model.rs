//! What an edit means for the values of a text, whatever its form.

use toml::{Table, Value};

use super::text::Segment;

/// Puts a value there; tables and lists on the way are made, and what is no table or list as the
/// path wants it gives way.
pub(super) fn put(holder: &mut Value, path: &[Segment], value: Value) {
    let Some((segment, rest)) = path.split_first() else {
        *holder = value;
        return;
    };
    match segment {
        Segment::Key(name) => {
            if !holder.is_table() {
                *holder = Value::Table(Table::new());
            }
            let Value::Table(table) = holder else { return };
            let field = table.entry(name).or_insert_with(|| Value::Table(Table::new()));
            put(field, rest, value);
        }
        Segment::Index(at) => {
            if !holder.is_array() {
                *holder = Value::Array(Vec::new());
            }
            let Value::Array(list) = holder else { return };
            if *at >= list.len() {
                list.push(Value::Table(Table::new()));
            }
            let last = list.len() - 1;
            put(&mut list[(*at).min(last)], rest, value);
        }
    }
}

/// Takes away what is there.
pub(super) fn cut(holder: &mut Value, path: &[Segment]) {
    let Some((last, around)) = path.split_last() else { return };
    match (get_mut(holder, around), last) {
        (Some(Value::Table(table)), Segment::Key(name)) => drop(table.remove(name)),
        (Some(Value::Array(list)), Segment::Index(at)) if *at < list.len() => {
            drop(list.remove(*at));
        }
        _ => {}
    }
}

/// What is there.
pub(super) fn get<'v>(holder: &'v Value, path: &[Segment]) -> Option<&'v Value> {
    path.iter().try_fold(holder, |value, segment| match segment {
        Segment::Key(name) => value.get(name),
        Segment::Index(at) => value.get(*at),
    })
}

fn get_mut<'v>(holder: &'v mut Value, path: &[Segment]) -> Option<&'v mut Value> {
    path.iter().try_fold(holder, |value, segment| match segment {
        Segment::Key(name) => value.get_mut(name),
        Segment::Index(at) => value.get_mut(*at),
    })
}

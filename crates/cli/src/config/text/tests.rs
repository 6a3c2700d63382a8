use super::*;
use crate::config::model;

/// `row[0].config.a` as a path.
fn path(text: &str) -> Vec<Segment> {
    let mut path = Vec::new();
    for part in text.split('.') {
        let (name, indices) = part.split_once('[').unwrap_or((part, ""));
        path.push(Segment::key(name));
        let indices = indices.split(['[', ']']).filter(|index| !index.is_empty());
        path.extend(indices.map(|index| Segment::Index(index.parse().unwrap())));
    }
    path
}

fn value_of(text: &str) -> toml::Value {
    // Rows that were all cut leave either no key or an empty list.
    let mut table: toml::Table = toml::from_str(text).unwrap();
    table.retain(|_, value| value.as_array().is_none_or(|rows| !rows.is_empty()));
    toml::Value::Table(table)
}

/// A text, a path, what is put there, and the text afterwards.
const PUTS: &[(&str, &str, &str, &str)] = &[
    // A value that is there keeps everything around it.
    (
        "[[row]] # r\nid = 'a'\n[row.config]  # c\n  t =   1   # one\n\nu=2\n",
        "row[0].config.t",
        "5",
        "[[row]] # r\nid = 'a'\n[row.config]  # c\n  t =   5   # one\n\nu=2\n",
    ),
    // Under a header: after the last statement, indented as it is, before comments and blanks.
    (
        "[[row]]\nid = 'a'\n[row.config]\n  t = 1 # one\n\n# b\n[[row]]\nid = 'b'\n",
        "row[0].config.u",
        "2",
        "[[row]]\nid = 'a'\n[row.config]\n  t = 1 # one\n  u = 2\n\n# b\n[[row]]\nid = 'b'\n",
    ),
    (
        "[[row]]\nid = 'a'\n[row.config]",
        "row[0].config.u",
        "2",
        "[[row]]\nid = 'a'\n[row.config]\nu = 2",
    ),
    // After a value of several lines.
    (
        "[[row]]\nid = 'a'\n[row.config]\nl = [\n  1, # one\n]\n",
        "row[0].config.u",
        "2",
        "[[row]]\nid = 'a'\n[row.config]\nl = [\n  1, # one\n]\nu = 2\n",
    ),
    // In braces, in each of their forms.
    (
        "row = [{ id = 'a' }]\n",
        "row[0].disabled",
        "true",
        "row = [{ id = 'a', disabled = true }]\n",
    ),
    ("a = { b = {} }\n", "a.b.c", "1", "a = { b = { c = 1 } }\n"),
    ("a = { b = 1, }\n", "a.c", "2", "a = { b = 1, c = 2, }\n"),
    ("a = {b=1}\n", "a.c", "2", "a = {b=1, c = 2}\n"),
    ("a = [\n  1, # one\n  2  # two\n]\n", "a[2]", "3", "a = [\n  1, # one\n  2,  # two\n  3\n]\n"),
    ("a = [\n  1, # one\n]\n", "a[1]", "2", "a = [\n  1, # one\n  2,\n]\n"),
    ("a = [\r\n  1,\r\n]\r\n", "a[1]", "2", "a = [\r\n  1,\r\n  2,\r\n]\r\n"),
    ("a = [ # none\n]\n", "a[0]", "1", "a = [ # none\n1]\n"),
    ("a = [1, 2]\n", "a[2]", "3", "a = [1, 2, 3]\n"),
    ("a = []\n", "a[0]", "1", "a = [1]\n"),
    ("a = { b.c = 1 }\n", "a.b.d", "2", "a = { b.c = 1, b.d = 2 }\n"),
    // Dotted keys, quoted keys.
    (
        "[[row]]\nid = 'a'\nconfig.t = 1 # one\nconfig.x.y = 2\ndisabled = true\n",
        "row[0].config.u",
        "3",
        "[[row]]\nid = 'a'\nconfig.t = 1 # one\nconfig.x.y = 2\nconfig.u = 3\ndisabled = true\n",
    ),
    (
        "[['row']]\n\"id\" = 'a'\n['row'.\"config\"]\n\"t\" = 1\n",
        "row[0].config.t",
        "5",
        "[['row']]\n\"id\" = 'a'\n['row'.\"config\"]\n\"t\" = 5\n",
    ),
    (
        "[[row]]\nid = 'a'\n[row.config]\n",
        "row[0].config.x y",
        "1",
        "[[row]]\nid = 'a'\n[row.config]\n\"x y\" = 1\n",
    ),
    // A table that only headers below it imply.
    (
        "[[row]]\nid = 'a'\n\n# r\n[row.config.retry]\nn = 1\n",
        "row[0].config.t",
        "2",
        "[[row]]\nid = 'a'\n\n[row.config]\nt = 2\n# r\n[row.config.retry]\nn = 1\n",
    ),
    // Tables on the way are made.
    (
        "[[row]]\nid = 'a'\n[row.config]\nt = 1\n",
        "row[0].config.x.y.z",
        "2",
        "[[row]]\nid = 'a'\n[row.config]\nt = 1\nx = { y = { z = 2 } }\n",
    ),
    // A row's first configuration, and another element of tables in it.
    (
        "[[row]]\nid = 'a'\n\n[[row]]\nid = 'b'\n",
        "row[0].config",
        "{ t = 1, l = [{ id = 'm' }] }",
        "[[row]]\nid = 'a'\n[row.config]\nt = 1\nl = [{ id = 'm' }]\n\n[[row]]\nid = 'b'\n",
    ),
    (
        "[[row]]\nid = 'a'\n[[row.config.l]]\nid = 'm'\n\n[[row]]\nid = 'b'\n",
        "row[0].config.l[1]",
        "{ id = 'n', x = 1 }",
        "[[row]]\nid = 'a'\n[[row.config.l]]\nid = 'm'\n[[row.config.l]]\nid = 'n'\nx = 1\n\n\
         [[row]]\nid = 'b'\n",
    ),
    // Another kind of value, also in place of a table with a header.
    (
        "[[row]]\n[row.config]\nt = 1\n",
        "row[0].config.t.u",
        "2",
        "[[row]]\n[row.config]\nt = { u = 2 }\n",
    ),
    (
        "[[row]]\nid = 'a'\n[row.config]\nt = 1\n[row.config.r] # r\nn = 1\n[[row]]\nid = 'b'\n",
        "row[0].config.r",
        "'off'",
        "[[row]]\nid = 'a'\n[row.config]\nt = 1\nr = 'off'\n[[row]]\nid = 'b'\n",
    ),
    // New rows.
    ("", "row[0]", "{ id = 'a', disabled = true }", "[[row]]\nid = 'a'\ndisabled = true\n"),
    (
        "# only a comment",
        "row[0]",
        "{ id = 'a', config = { t = 1 } }",
        "# only a comment\n\n[[row]]\nid = 'a'\n[row.config]\nt = 1",
    ),
    (
        "\u{feff}[[row]]\r\nid = 'a'\r\n\r\n[[insert]]\r\nid = 'b'\r\n",
        "row[1]",
        "{ id = 'c' }",
        "\u{feff}[[row]]\r\nid = 'a'\r\n\r\n[[insert]]\r\nid = 'b'\r\n\r\n[[row]]\r\nid = 'c'\r\n",
    ),
];

#[test]
fn a_value_is_put_where_it_belongs() {
    for (before, at, value, after) in PUTS {
        assert_eq!(
            put(before, &path(at), value).as_deref(),
            Ok(*after),
            "{at} = {value} in\n{before}"
        );
    }
}

/// A text, a path, and the text without what was there.
const CUTS: &[(&str, &str, &str)] = &[
    // A statement with the comments directly above it.
    (
        "[[row]]\nid = 'a'\n[row.config]\nt = 1\n\n# two\n# lines\nu = 2 # two\n\nv = 3\n",
        "row[0].config.u",
        "[[row]]\nid = 'a'\n[row.config]\nt = 1\n\nv = 3\n",
    ),
    (
        "[[row]]\nid = 'a'\n[row.config]\n# free\n\nu = 2\n# about v\nv = '''\n\
         # no comment'''\nw = 3\n",
        "row[0].config.w",
        "[[row]]\nid = 'a'\n[row.config]\n# free\n\nu = 2\n# about v\nv = '''\n# no comment'''\n",
    ),
    // The last statement of a header leaves it.
    ("[[row]]\n[row.config]\nt = 1\n", "row[0].config.t", "[[row]]\n[row.config]\n"),
    // A row with what belongs to it, and no empty lines too many; notes in it stay.
    (
        "# The file.\n\n# a\n[[row]] # r\nid = 'a'\n\n# inside\nx = 1\n# last\n\n# free\n\n\
         # b\n[[row]]\nid = 'b'\n",
        "row[0]",
        "# The file.\n\n# inside\n# last\n\n# free\n\n# b\n[[row]]\nid = 'b'\n",
    ),
    // What is commented out below it, and the last line of the file.
    (
        "# The file.\n\n# a\n[[row]]\nid = 'a'\n# [[row]]\n# id = 'c'\n\n[[row]]\nid = 'b'\n\
         # tail\n",
        "row[0]",
        "# The file.\n\n# [[row]]\n# id = 'c'\n\n[[row]]\nid = 'b'\n# tail\n",
    ),
    ("[[row]]\nid = 'a'\n# tail", "row[0]", "# tail"),
    ("[[row]]\r\nid = 'a'\r\n# tail\r\n", "row[0]", "# tail\r\n"),
    // Directly above it, but perhaps of what comes before, or waiting to be switched on again.
    ("[[row]]\nid = 'a'\n# of a?\n[[row]]\nid = 'b'\n", "row[1]", "[[row]]\nid = 'a'\n# of a?\n"),
    (
        "# The file.\n\n# [[row]]\n# id = 'c'\n[[row]]\nid = 'a'\n",
        "row[0]",
        "# The file.\n\n# [[row]]\n# id = 'c'\n",
    ),
    (
        "[[row]]\nid = 'a'\n\n# t = 1\nt = 2\nu = 3\n",
        "row[0].t",
        "[[row]]\nid = 'a'\n\n# t = 1\nu = 3\n",
    ),
    // Notes in a table of it.
    (
        "[[row]]\nid = 'a'\n\n# c\n[row.config]\n# note\n\n# two\nt = 1\n# u = 2\n\n\
         # b\n[[row]]\nid = 'b'\n",
        "row[0]",
        "# c\n# note\n\n# two\n# u = 2\n\n# b\n[[row]]\nid = 'b'\n",
    ),
    (
        "[[row]]\nid = 'a'\n\n[row.config]\nt = 1\n\n# b\n[[row]]\nid = 'b'\n",
        "row[0]",
        "# b\n[[row]]\nid = 'b'\n",
    ),
    ("[[row]]\nid = 'a'\n\n[[row]]\nid = 'b'\n", "row[1]", "[[row]]\nid = 'a'\n"),
    ("[[row]]\r\nid = 'a'\r\n\r\n[[row]]\r\nid = 'b'", "row[1]", "[[row]]\r\nid = 'a'"),
    ("[[row]]\nid = 'a'\n", "row[0]", ""),
    ("\u{feff}[[row]]\nid = 'a'\n", "row[0]", "\u{feff}"),
    // Comments at the very beginning are the file's.
    ("# The file.\n[[row]]\nid = 'a'\n", "row[0]", "# The file.\n"),
    // A table of a row that stands elsewhere.
    (
        "[[row]]\nid = 'a'\n[[insert]]\nid = 'b'\n[row.config]\nt = 1\n[insert.config]\nu = 1\n",
        "row[0]",
        "[[insert]]\nid = 'b'\n[insert.config]\nu = 1\n",
    ),
    // Dotted keys.
    (
        "[[row]]\nid = 'a'\nconfig.t = 1\nconfig.x.y = 2\nconfig.x.z = 3\ndisabled = true\n",
        "row[0].config.x",
        "[[row]]\nid = 'a'\nconfig.t = 1\ndisabled = true\n",
    ),
    // A table around stays, also when nothing of it is left.
    ("[[row]]\nid = 'a'\nconfig.t = 1\n", "row[0].config.t", "[[row]]\nid = 'a'\nconfig = {}\n"),
    (
        "[[row]]\nid = 'a'\n[[row.config.l]]\nid = 'm'\n",
        "row[0].config.l[0]",
        "[[row]]\nid = 'a'\n[row.config]\nl = []\n",
    ),
    // Braces.
    ("a = { b = 1, c = 2 }\n", "a.b", "a = { c = 2 }\n"),
    ("a = { b = 1, c = 2 }\n", "a.c", "a = { b = 1 }\n"),
    ("a = { b = 1 } # a\n", "a.b", "a = {} # a\n"),
    ("a = { b.c = 1, d = 2, b.e = 3 }\n", "a.b", "a = { d = 2 }\n"),
    ("a = { b.c = 1 }\n", "a.b.c", "a = { b = {} }\n"),
    ("a = [1, 2, 3]\n", "a[1]", "a = [1, 3]\n"),
    (
        "a = [\n  1, # one\n  2, # two\n  3  # three\n]\n",
        "a[1]",
        "a = [\n  1, # one\n  3  # three\n]\n",
    ),
    ("a = [\n  1, # one\n  2  # two\n]\n", "a[1]", "a = [\n  1 # one\n]\n"),
    ("row = [{ id = 'a' }, { id = 'b' }]\n", "row[0]", "row = [{ id = 'b' }]\n"),
];

#[test]
fn what_is_cut_takes_only_its_own_along() {
    for (before, at, after) in CUTS {
        assert_eq!(cut(before, &path(at)).as_deref(), Ok(*after), "{at} from\n{before}");
    }
}

#[test]
fn a_list_has_no_gaps_and_no_text_is_made_worse() {
    let text = "a = [1]\n[[row]]\nid = 'a'\n";
    assert_eq!(put(text, &path("a[2]"), "1"), Err(EditError::Gap { length: 1 }));
    assert_eq!(put(text, &path("b[1].c"), "1"), Err(EditError::Gap { length: 0 }));
    assert_eq!(put(text, &path("row[0].config.b[1]"), "1"), Err(EditError::Gap { length: 0 }));
    assert_eq!(put(text, &path("row[1]"), "1"), Err(EditError::NoTable));
    assert_eq!(put("[[row]\n", &path("a"), "1"), Err(EditError::Syntax));
    assert_eq!(cut(text, &path("row[1]")).as_deref(), Ok(text));
}

/// All forms in which one configuration can be written, and more.
const FORMS: &[&str] = &[
    "[[row]]\nid = 'a'\n\
     config = { t = 1, r = { n = 1, m = 2 }, l = [{ id = 'x', k = 1 }, { id = 'y' }] }\n",
    "[[row]]\nid = 'a'\n[row.config]\nt = 1\n[row.config.r]\nn = 1\nm = 2\n\
     [[row.config.l]]\nid = 'x'\nk = 1\n[[row.config.l]]\nid = 'y'\n",
    "[[row]]\nid = 'a'\nconfig.t = 1\nconfig.r.n = 1\n\
     config.l = [{ id = 'x', k = 1 }, { id = 'y' }]\nconfig.r.m = 2\n",
    "[[row]]\nid = 'a'\nconfig.t = 1\n[row.config.r]\nn = 1\nm = 2\n[[row.config.l]]\n\
     id = 'x'\nk.o.p = 1\nk.o.q = 2\n[row.config.l.z]\n[[row.config.l]]\n",
    "[[row]]\nid = 'a'\n[[insert]]\nid = 'b'\n# r\n[row.config.r]\nn = 1\n\n# m\nm = 2\n\
     [insert.config]\nu = [[1, 2], []]\n[[row.config.l]]\n",
    "row = [\n  # a\n  { id = 'a', config.t = 1, config.r.n = 1, \
     config.l = [ { id = 'x', }, ], config.r.m = 2 }, # end\n  { id = 'b' }\n\
     ]\n",
    "[['row']]\n'id' = 'a'\n['row'.\"config\"]\nt = '''\n[[row]]\n# x'''\nr = {}\n\
     'l' = [\n  [ # a\n    1, ],\n  \"]\", 3\n]\n\n# end",
    "\u{feff}[[row]]\r\nid = 'a'\r\n[row.config]\r\nt = [\r\n  1, # a\r\n  2\r\n\
     ] # b\r\n\r\n# c\r\n[[row]]\r\nid = 'b'",
    "[[row]]\nid = 'a'\n\
     config = {\n  t = 1, # t\n  r = { n = 1 },\n  l = [\n    1,\n    { x = 1 } # x\n  ] # l\n\
     }\n[[row]]\nid = 'b'\nconfig.x = 1\n",
];

/// Every path into a value, and one new key or element in each table and list.
fn paths(value: &toml::Value, at: &[Segment], all: &mut Vec<Vec<Segment>>) {
    let mut step = |segment, child: Option<&toml::Value>| {
        let path = [at, &[segment]].concat();
        all.push(path.clone());
        if let Some(child) = child {
            paths(child, &path, all);
        }
    };
    match value {
        toml::Value::Table(table) => {
            table.iter().for_each(|(key, child)| step(Segment::key(key), Some(child)));
            if !at.is_empty() {
                step(Segment::key("new"), None);
            }
        }
        toml::Value::Array(list) => {
            list.iter().enumerate().for_each(|(at, child)| step(Segment::Index(at), Some(child)));
            step(Segment::Index(list.len()), None);
        }
        _ => {}
    }
}

/// Lines that hold none of these keys must all be there afterwards.
fn comments(text: &str) -> Vec<&str> {
    text.lines()
        .map(|line| line.trim_end_matches('\r'))
        .filter(|line| line.starts_with("# "))
        .collect()
}

#[test]
fn every_edit_of_every_form_means_what_it_should() {
    let mut edits = 0;
    for text in FORMS {
        let before = value_of(text);
        let mut all = Vec::new();
        paths(&before, &[], &mut all);
        // The lists of rows are never edited as a whole.
        all.retain(|path| path.len() > 1);
        for path in all {
            for value in ["5", "'x'", "[1]", "{ y = { z = 1 } }", "{}"] {
                let put = match put(text, &path, value) {
                    Err(EditError::NoTable) => continue,
                    put => put.unwrap(),
                };
                let mut wanted = before.clone();
                let new: toml::Table = toml::from_str(&format!("v = {value}")).unwrap();
                model::put(&mut wanted, &path, new["v"].clone());
                assert_eq!(value_of(&put), wanted, "{path:?} = {value} in\n{text}\ngave\n{put}");
                assert_eq!(put.starts_with('\u{feff}'), text.starts_with('\u{feff}'));
                assert_eq!(put.matches("\r\n").count() > 0, text.contains("\r\n"));
                edits += 1;
            }
            let cut = cut(text, &path).unwrap();
            let mut wanted = before.clone();
            model::cut(&mut wanted, &path);
            if path.len() == 2 && wanted[key_of(&path)].as_array().unwrap().is_empty() {
                model::cut(&mut wanted, &path[..1]);
            }
            assert_eq!(value_of(&cut), wanted, "{path:?} from\n{text}\ngave\n{cut}");
            edits += 1;
        }
    }
    assert!(edits > 900, "{edits}");
}

fn key_of(path: &[Segment]) -> &str {
    match &path[0] {
        Segment::Key(name) => name,
        Segment::Index(_) => unreachable!("a document is a table"),
    }
}

#[test]
fn free_comments_outlive_every_edit_of_other_rows() {
    let text = FORMS[8].replace("[[row]]", "# free\n\n[[row]]");
    for at in ["row[1]", "row[1].config.x", "row[1].id"] {
        let cut = cut(&text, &path(at)).unwrap();
        assert_eq!(comments(&cut), comments(&text), "{at}");
    }
}

#[test]
fn lines_are_those_of_keys_and_headers() {
    let text = "# c\n[[row]]\nid = 'a'\n\n[row.config]\nt = 1\nl = [\n  1,\n  2]\n";
    let lines = [("row", 2), ("row[0]", 2), ("row[0].id", 3), ("row[0].config", 5)];
    let more = [("row[0].config.t", 6), ("row[0].config.l[1]", 9), ("row[0].config.no", 5)];
    for (at, line) in lines.into_iter().chain(more) {
        assert_eq!(line_of(text, &path(at)), Ok(line), "{at}");
    }
}

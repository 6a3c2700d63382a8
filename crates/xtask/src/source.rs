use std::collections::BTreeSet;
use std::path::PathBuf;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

use crate::paths::written;

/// One token of a file, flattened: groups become an opening and a closing token.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) line: usize,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Kind {
    Ident(String),
    Punct(char),
    Literal,
    Open,
    Close,
}

/// A parsed file with what the rules ask about its lines. Strings and comments are told apart by
/// the tokenizer, so no rule is misled by the text inside them.
pub(crate) struct Source {
    /// Path below the workspace root.
    pub(crate) path: PathBuf,
    /// Compiled for tests only.
    pub(crate) test: bool,
    pub(crate) text: String,
    pub(crate) syntax: syn::File,
    /// All tokens outside doc comments.
    pub(crate) tokens: Vec<Token>,
    lines: Vec<Line>,
}

#[derive(Default, Clone)]
struct Line {
    code: bool,
    test: bool,
    /// Belongs to a literal of several lines, whose layout is content.
    literal: bool,
    /// What stands outside all tokens: comments and blanks.
    comment: String,
}

impl Source {
    /// Parses `text`; the error is the line and the parser's words.
    pub(crate) fn parse(path: PathBuf, text: String, test: bool) -> Result<Self, (usize, String)> {
        let stream: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| {
            (error.span().start().line, error.to_string())
        })?;
        let syntax: syn::File = syn::parse2(stream.clone())
            .map_err(|error| (error.span().start().line, error.to_string()))?;
        let mut scan = Scan::new(&text);
        scan.stream(stream);
        let (tokens, lines) = scan.finish();
        Ok(Self { path, test, text, syntax, tokens, lines })
    }

    /// True where `line` is compiled for tests only.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.test || self.lines.get(line).is_some_and(|line| line.test)
    }

    pub(crate) fn is_literal(&self, line: usize) -> bool {
        self.lines.get(line).is_some_and(|line| line.literal)
    }

    /// Lines with code, tests left out, strictly between `open` and `close`.
    pub(crate) fn code_between(&self, open: usize, close: usize) -> usize {
        self.lines.iter().take(close).skip(open + 1).filter(|line| line.code).count()
    }

    /// Code lines of the file: no blanks, no comments, no tests.
    pub(crate) fn code_lines(&self) -> usize {
        if self.test {
            return 0;
        }
        self.lines.iter().filter(|line| line.code && !line.test).count()
    }

    /// The text of each line that is in no token, with its number: comments, doc comments too.
    pub(crate) fn comments(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines.iter().enumerate().map(|(number, line)| (number, line.comment.as_str()))
    }

    /// Every path that is written in the file, with its line.
    pub(crate) fn paths(&self) -> BTreeSet<(usize, String)> {
        written(&self.tokens, &self.syntax)
    }
}

struct Scan {
    chars: Vec<Vec<char>>,
    covered: Vec<Vec<bool>>,
    lines: Vec<Line>,
    tokens: Vec<Token>,
}

impl Scan {
    fn new(text: &str) -> Self {
        // Line numbers start at 1; index 0 stays empty.
        let mut chars = vec![Vec::new()];
        chars.extend(text.lines().map(|line| line.chars().collect::<Vec<_>>()));
        let covered = chars.iter().map(|line| vec![false; line.len()]).collect();
        let lines = vec![Line::default(); chars.len()];
        Self { chars, covered, lines, tokens: Vec::new() }
    }

    fn finish(mut self) -> (Vec<Token>, Vec<Line>) {
        for (number, line) in self.lines.iter_mut().enumerate() {
            line.comment = self.chars[number]
                .iter()
                .zip(&self.covered[number])
                .map(|(char, covered)| if *covered { ' ' } else { *char })
                .collect();
        }
        (std::mem::take(&mut self.tokens), self.lines)
    }

    fn stream(&mut self, stream: TokenStream) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let mut test_from: Option<usize> = None;
        let mut at = 0;
        while let Some(tree) = trees.get(at) {
            if let Some((attribute, inner, width)) = attribute(&trees[at..]) {
                match is_test_only(&attribute) {
                    true if inner => self.mark_tests(1, self.lines.len()),
                    true => test_from = test_from.or(Some(tree.span().start().line)),
                    false => {}
                }
                if attribute_name(&attribute) == "doc" {
                    at += width;
                    continue;
                }
            }
            let ends_item = match tree {
                TokenTree::Punct(punct) => punct.as_char() == ';',
                TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                _ => false,
            };
            let last = tree.span().end().line;
            self.tree(tree.clone());
            if ends_item && let Some(first) = test_from.take() {
                self.mark_tests(first, last);
            }
            at += 1;
        }
    }

    fn mark_tests(&mut self, first: usize, last: usize) {
        for line in self.lines.iter_mut().take(last + 1).skip(first) {
            line.test = true;
        }
    }

    fn tree(&mut self, tree: TokenTree) {
        match tree {
            TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
                self.stream(group.stream());
            }
            TokenTree::Group(group) => {
                self.push(Kind::Open, group.span_open());
                self.stream(group.stream());
                self.push(Kind::Close, group.span_close());
            }
            TokenTree::Ident(ident) => {
                let span = ident.span();
                self.push(Kind::Ident(ident.to_string()), span);
            }
            TokenTree::Punct(punct) => self.push(Kind::Punct(punct.as_char()), punct.span()),
            TokenTree::Literal(literal) => {
                let span = literal.span();
                self.push(Kind::Literal, span);
            }
        }
    }

    fn push(&mut self, kind: Kind, span: Span) {
        let (start, end) = (span.start(), span.end());
        for number in start.line..=end.line {
            let Some(chars) = self.chars.get(number) else { continue };
            let from = if number == start.line { start.column } else { 0 };
            let to = if number == end.line { end.column } else { chars.len() };
            for covered in self.covered[number].iter_mut().take(to).skip(from) {
                *covered = true;
            }
            let line = &mut self.lines[number];
            line.code |= chars.iter().any(|char| !char.is_whitespace());
            line.literal |= start.line < end.line;
        }
        self.tokens.push(Token { kind, line: start.line });
    }
}

/// An attribute at the head of `trees`: its content, whether it is `#![..]`, and its width.
fn attribute(trees: &[TokenTree]) -> Option<(TokenStream, bool, usize)> {
    let TokenTree::Punct(hash) = trees.first()? else { return None };
    if hash.as_char() != '#' {
        return None;
    }
    let bang = matches!(trees.get(1)?, TokenTree::Punct(bang) if bang.as_char() == '!');
    let at = if bang { 2 } else { 1 };
    match trees.get(at)? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
            Some((group.stream(), bang, at + 1))
        }
        _ => None,
    }
}

/// The last name of an attribute's path: `test` for `tokio::test`.
fn attribute_name(content: &TokenStream) -> String {
    let mut name = String::new();
    for tree in content.clone() {
        match tree {
            TokenTree::Ident(ident) => name = ident.to_string(),
            TokenTree::Punct(punct) if punct.as_char() == ':' => {}
            _ => break,
        }
    }
    name
}

/// `#[test]`, `#[tokio::test]`, `#[cfg(test)]`, `#[cfg(all(test, ..))]`.
fn is_test_only(content: &TokenStream) -> bool {
    match attribute_name(content).as_str() {
        "test" => true,
        "cfg" => content.clone().into_iter().any(|tree| match tree {
            TokenTree::Group(group) => is_test_condition(group.stream()),
            _ => false,
        }),
        _ => false,
    }
}

/// Whether a `cfg` condition holds in tests only.
pub(crate) fn is_test_condition(condition: TokenStream) -> bool {
    let trees: Vec<TokenTree> = condition.into_iter().collect();
    let named = |tree: &TokenTree, name: &str| matches!(tree, TokenTree::Ident(i) if i == name);
    match trees.as_slice() {
        [only] => named(only, "test"),
        [all, TokenTree::Group(group)] if named(all, "all") => {
            group.stream().into_iter().any(|tree| named(&tree, "test"))
        }
        _ => false,
    }
}

//! The syntax tree of a command line, brought down to the commands in it.
//!
//! The grammar is tree-sitter's. It recovers from what it cannot read and, now
//! and then, reads something else than bash does, so nothing is taken from it
//! on trust: quotes are followed a second time, and what is between two words
//! must be white space (`check`).

mod check;

use std::cell::RefCell;
use std::ops::Range;

use tree_sitter::{Node, Parser};

use super::word;

/// How deep commands may be nested. The walk takes a stack frame for each
/// level; nobody writes by hand what is deeper.
const DEPTH_CAP: usize = 64;

/// The commands of a line, at whatever depth, in the order they are written.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) commands: Vec<Simple>,
    /// What makes it more than commands one behind the other.
    pub(super) compound: Option<String>,
    /// Why it may run something that is not among the commands.
    pub(super) unsure: Option<String>,
}

/// A program, its words and its redirections.
#[derive(Debug)]
pub(super) struct Simple {
    /// What stands between it and the command before.
    pub(super) joint: Joint,
    pub(super) assignments: Vec<Range<usize>>,
    pub(super) words: Vec<Word>,
    pub(super) redirections: Vec<Redirection>,
    /// From its first byte to its last.
    pub(super) range: Range<usize>,
}

#[derive(Debug)]
pub(super) struct Word {
    pub(super) range: Range<usize>,
    /// What it stands for, if no shell makes more of it.
    pub(super) literal: Option<String>,
}

#[derive(Debug)]
pub(super) struct Redirection {
    pub(super) range: Range<usize>,
    /// How it is written out again, if it goes nowhere: to `/dev/null`, or
    /// from one of the two outputs to the other.
    pub(super) harmless: Option<String>,
}

/// What stands between two commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Joint {
    /// `;` or the end of a line.
    #[default]
    Then,
    And,
    Or,
    Pipe,
    /// `|&`: both outputs go into the pipe.
    PipeBoth,
    Background,
}

thread_local! {
    /// Kept, since making one costs as much as parsing a line.
    static PARSER: RefCell<Parser> = RefCell::new({
        let mut parser = Parser::new();
        parser
            .set_language(&tree_sitter_bash::LANGUAGE.into())
            .expect("the grammar is of a version the parser knows");
        parser
    });
}

/// Parses a command line.
pub(super) fn parse(source: &str) -> Script {
    let tree = PARSER
        .with_borrow_mut(|parser| parser.parse(source, None))
        .expect("it has a language, and nothing cancels it");
    let mut walk = Walk {
        source,
        script: Script::default(),
        joint: Joint::Then,
        openings: Vec::new(),
        quiet: Vec::new(),
    };
    let root = tree.root_node();
    if root.has_error() {
        walk.unsure("it cannot be parsed");
    }
    walk.statements(root, 0);
    walk.look_for_hidden_substitutions();
    let mut script = walk.script;
    check::gaps(source, &mut script);
    script
}

struct Walk<'a> {
    source: &'a str,
    script: Script,
    joint: Joint,
    /// Where the tree has a substitution begin.
    openings: Vec<usize>,
    /// Where the tree has text in which nothing begins.
    quiet: Vec<Range<usize>>,
}

impl Walk<'_> {
    fn unsure(&mut self, reason: impl Into<String>) {
        self.script.unsure.get_or_insert_with(|| reason.into());
    }

    fn compound(&mut self, reason: impl Into<String>) {
        self.script.compound.get_or_insert_with(|| reason.into());
    }

    fn text(&self, node: Node<'_>) -> &str {
        &self.source[node.byte_range()]
    }

    /// Walks the children of a node that holds statements.
    fn statements(&mut self, node: Node<'_>, depth: usize) {
        for child in node.children(&mut node.walk()) {
            self.statement(child, depth);
        }
    }

    fn statement(&mut self, node: Node<'_>, depth: usize) {
        if depth > DEPTH_CAP {
            self.unsure("it is nested too deeply");
            return;
        }
        let depth = depth + 1;
        if let Some(joint) = joint(node.kind()) {
            self.joint = joint;
            if joint == Joint::Background {
                self.compound("`&` leaves a command running in the background");
            }
            return;
        }
        match node.kind() {
            "list" | "pipeline" => self.statements(node, depth),
            "command" | "declaration_command" | "unset_command" => {
                self.simple(node, &[], depth);
            }
            "redirected_statement" => self.redirected(node, depth),
            "test_command"
                if self.text(node).starts_with("[[") || !self.text(node).starts_with('[') =>
            {
                self.compound("it holds a conditional expression");
                self.expression(node, depth);
            }
            "test_command" => self.test(node, depth),
            "comment" => {
                self.quiet.push(node.byte_range());
                check::comment(self.source, node.start_byte())
                    .unwrap_or_else(|why| self.unsure(why));
            }
            "variable_assignment" | "variable_assignments" => {
                self.compound("it sets a variable");
                self.expression(node, depth);
            }
            "negated_command"
            | "subshell"
            | "compound_statement"
            | "do_group"
            | "if_statement"
            | "elif_clause"
            | "else_clause"
            | "while_statement"
            | "function_definition"
            | "for_statement"
            | "case_statement"
            | "case_item" => {
                let kind = node.kind().replace('_', " ");
                self.compound(format!("it is more than a plain command: {kind}"));
                self.parts_of_compound(node, depth);
            }
            // Punctuation and the words that hold a compound command together.
            _ if !node.is_named() => {}
            // The name of a function.
            "word" => {}
            kind => {
                self.unsure(format!("it holds what cannot be read: {}", kind.replace('_', " ")));
            }
        }
    }

    /// Statements, and the words that a loop goes through or a case compares.
    fn parts_of_compound(&mut self, node: Node<'_>, depth: usize) {
        for (index, child) in node.children(&mut node.walk()).enumerate() {
            let field =
                u32::try_from(index).ok().and_then(|index| node.field_name_for_child(index));
            match field {
                Some("value" | "variable") => self.expression(child, depth),
                Some(_) | None => self.statement(child, depth),
            }
        }
    }

    fn simple(&mut self, node: Node<'_>, redirections: &[Node<'_>], depth: usize) {
        let joint = std::mem::take(&mut self.joint);
        let mut simple = Simple {
            joint,
            assignments: Vec::new(),
            words: Vec::new(),
            redirections: Vec::new(),
            range: node.byte_range(),
        };
        for child in node.children(&mut node.walk()) {
            match child.kind() {
                "variable_assignment" if simple.words.is_empty() => {
                    self.expression(child, depth);
                    simple.assignments.push(child.byte_range());
                }
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                    self.redirect(child, &mut simple, depth);
                }
                _ => self.word(child, &mut simple, depth),
            }
        }
        for redirection in redirections {
            self.redirect(*redirection, &mut simple, depth);
        }
        self.script.commands.push(simple);
    }

    fn word(&mut self, node: Node<'_>, simple: &mut Simple, depth: usize) {
        self.expression(node, depth);
        let literal = word::literal(self.text(node));
        simple.words.push(Word { range: node.byte_range(), literal });
    }

    /// `[ … ]`: to bash an ordinary command, to the grammar an expression.
    fn test(&mut self, node: Node<'_>, depth: usize) {
        self.expression(node, depth);
        let joint = std::mem::take(&mut self.joint);
        let words = check::words(self.source, node.byte_range());
        if words.is_empty() {
            self.unsure("the words between `[` and `]` are not plain");
        }
        self.script.commands.push(Simple {
            joint,
            assignments: Vec::new(),
            words,
            redirections: Vec::new(),
            range: node.byte_range(),
        });
    }

    fn redirected(&mut self, node: Node<'_>, depth: usize) {
        let body = node.child_by_field_name("body");
        let redirections: Vec<Node<'_>> =
            node.children(&mut node.walk()).filter(|child| Some(*child) != body).collect();
        match body {
            Some(body) if body.kind() == "command" => self.simple(body, &redirections, depth),
            Some(body) => {
                let is_list = matches!(body.kind(), "list" | "pipeline" | "test_command");
                self.statement(body, depth);
                // It belongs to the last command of the list.
                let Some(mut last) = self.script.commands.pop() else {
                    self.compound("it redirects more than a command");
                    return;
                };
                if !is_list {
                    self.compound("it redirects more than a command");
                }
                for redirection in redirections {
                    self.redirect(redirection, &mut last, depth);
                }
                self.script.commands.push(last);
            }
            None => {
                let joint = std::mem::take(&mut self.joint);
                let mut simple = Simple {
                    joint,
                    assignments: Vec::new(),
                    words: Vec::new(),
                    redirections: Vec::new(),
                    range: node.byte_range(),
                };
                for redirection in redirections {
                    self.redirect(redirection, &mut simple, depth);
                }
                self.script.commands.push(simple);
            }
        }
    }

    /// One redirection, and the words behind its file that the grammar takes
    /// for more files.
    fn redirect(&mut self, node: Node<'_>, simple: &mut Simple, depth: usize) {
        simple.range.start = simple.range.start.min(node.start_byte());
        simple.range.end = simple.range.end.max(node.end_byte());
        match node.kind() {
            "file_redirect" => {}
            "herestring_redirect" => {
                self.compound("it holds a text as input");
                self.expression(node, depth);
                simple.redirections.push(Redirection { range: node.byte_range(), harmless: None });
                return;
            }
            _ => {
                self.compound("it holds a document as input");
                self.document(node, simple, depth);
                return;
            }
        }
        let mut destinations = node
            .children_by_field_name("destination", &mut node.walk())
            .collect::<Vec<_>>()
            .into_iter();
        let first = destinations.next();
        if let Some(first) = first {
            self.expression(first, depth);
        }
        let end = first.map_or(node.end_byte(), |first| first.end_byte());
        let range = node.start_byte()..end;
        let harmless = harmless(&self.source[range.clone()]);
        simple.redirections.push(Redirection { range, harmless });
        for word in destinations {
            self.word(word, simple, depth);
        }
    }

    /// A here-document: what follows on its first line, and its body.
    fn document(&mut self, node: Node<'_>, simple: &mut Simple, depth: usize) {
        check::document(self.source, node).unwrap_or_else(|why| self.unsure(why));
        simple.redirections.push(Redirection { range: node.byte_range(), harmless: None });
        let mut cursor = node.walk();
        let mut more = cursor.goto_first_child();
        while more {
            let child = cursor.node();
            match (cursor.field_name(), child.kind()) {
                (_, "heredoc_start" | "heredoc_end") => self.quiet.push(child.byte_range()),
                (_, "heredoc_body") if check::is_quoted(self.source, node) => {
                    self.quiet.push(child.byte_range());
                }
                (_, "heredoc_body") => self.expression(child, depth),
                (_, "file_redirect") => self.redirect(child, simple, depth),
                (Some("argument"), _) => self.word(child, simple, depth),
                (_, _) => self.statement(child, depth),
            }
            more = cursor.goto_next_sibling();
        }
    }

    /// Looks for commands in what makes up a word.
    fn expression(&mut self, node: Node<'_>, depth: usize) {
        if depth > DEPTH_CAP {
            self.unsure("it is nested too deeply");
            return;
        }
        match node.kind() {
            "raw_string" => self.quiet.push(node.byte_range()),
            "ansi_c_string" => {
                self.quiet.push(node.byte_range());
                check::ansi_string(self.text(node)).unwrap_or_else(|why| self.unsure(why));
            }
            "comment" => self.statement(node, depth),
            "command" | "subshell" | "compound_statement" | "list" | "pipeline" | "ERROR" => {
                self.unsure("a command stands where a word is expected");
            }
            "word" => check::bare(self.text(node)).unwrap_or_else(|why| self.unsure(why)),
            "expansion" | "regex" | "extglob_pattern" => {
                check::unquoted(self.text(node)).unwrap_or_else(|why| self.unsure(why));
                self.parts(node, depth);
            }
            "command_substitution" | "process_substitution" => {
                self.openings.push(node.start_byte());
                self.compound("it runs a command inside a word");
                if self.text(node).starts_with('`') && self.text(node).contains('\\') {
                    self.unsure("it is not plain what its backquotes hold");
                }
                let outer = std::mem::take(&mut self.joint);
                self.statements(node, depth + 1);
                self.joint = outer;
            }
            "arithmetic_expansion" => {
                self.openings.push(node.start_byte());
                check::unquoted(self.text(node)).unwrap_or_else(|why| self.unsure(why));
                self.parts(node, depth);
            }
            "string" => {
                check::string(self.source, node).unwrap_or_else(|why| self.unsure(why));
                self.parts(node, depth);
            }
            _ => self.parts(node, depth),
        }
    }

    fn parts(&mut self, node: Node<'_>, depth: usize) {
        if node.child_count() > 0 {
            for child in node.children(&mut node.walk()) {
                self.expression(child, depth + 1);
            }
        }
    }

    /// Every substitution that bash may see, the tree must have seen too.
    fn look_for_hidden_substitutions(&mut self) {
        let source = self.source;
        for opening in ["`", "$(", "<(", ">("] {
            for (at, _) in source.match_indices(opening) {
                let escaped =
                    source[..at].bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
                let is_known = self.openings.contains(&at)
                    || self.quiet.iter().any(|range| range.contains(&at))
                    // The end of one that began with it.
                    || opening == "`" && self.closes(at);
                if !escaped && !is_known {
                    self.unsure("it is not plain where a substitution begins");
                    return;
                }
            }
        }
    }

    /// Tells whether the backquote there is the first behind an opening one.
    fn closes(&self, at: usize) -> bool {
        let source = self.source.as_bytes();
        let before = (0..at).rev().find(|&at| source[at] == b'`');
        before.is_some_and(|before| self.openings.contains(&before))
    }
}

fn joint(operator: &str) -> Option<Joint> {
    Some(match operator {
        ";" | "\n" => Joint::Then,
        "&&" => Joint::And,
        "||" => Joint::Or,
        "|" => Joint::Pipe,
        "|&" => Joint::PipeBoth,
        "&" => Joint::Background,
        _ => return None,
    })
}

/// Writes a redirection out again if it loses output, or sends one of the two
/// outputs to the other.
fn harmless(source: &str) -> Option<String> {
    let operator_at = source.find(['<', '>', '&'])?;
    let (descriptor, rest) = source.split_at(operator_at);
    let operator_end = rest.find(|c| !"<>&|".contains(c))?;
    let (operator, file) = rest.split_at(operator_end);
    let file = word::literal(file.trim_start_matches([' ', '\t']))?;
    match (descriptor, operator, file.as_str()) {
        ("" | "1" | "2", ">" | ">>" | ">|", "/dev/null") => Some(format!("{descriptor}>/dev/null")),
        ("" | "0", "<", "/dev/null") => Some("</dev/null".to_owned()),
        ("" | "1" | "2", ">&", "1" | "2") => Some(format!("{descriptor}>&{file}")),
        ("", "&>" | "&>>" | ">&", "/dev/null") => Some(">/dev/null 2>&1".to_owned()),
        (_, _, _) => None,
    }
}

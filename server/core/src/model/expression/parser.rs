//! From words to a tree, by recursive descent:
//!
//! ```text
//! either     = both { "or" both }
//! both       = part { "and" part }
//! part       = "not" part | "(" either ")" | "exists" "(" name ")" | comparison
//! comparison = name ( "=" | "!=" ) ( text | number )
//!            | name ( "<" | "<=" | ">" | ">=" ) number
//!            | name "in" "(" ( text | number ) { "," ( text | number ) } ")"
//! ```

use super::lexer::{Lexer, Token, shown};
use super::{EXPRESSION_NESTING_MAX, FIELD_PREFIX, Field, Name, Node, Relation, SyntaxError};

type Parsed<T> = Result<T, SyntaxError>;

pub(super) fn parse(text: &str) -> Parsed<Node> {
    let mut lexer = Lexer::new(text);
    let (column, token) = lexer.next()?;
    let mut parser = Parser { lexer, column, token, depth: 0 };
    let node = parser.either()?;
    match &parser.token {
        Token::End => Ok(node),
        Token::Close => parser.refuse("this `)` closes nothing"),
        found => parser.refuse(format!("`and` or `or` would do before {}", found.shown())),
    }
}

/// A text or a number.
enum Literal {
    Text(String),
    Number(f64),
}

/// One word ahead of what has been parsed.
struct Parser<'t> {
    lexer: Lexer<'t>,
    /// Where `token` begins.
    column: usize,
    token: Token,
    /// How many parentheses and `not` are open.
    depth: usize,
}

impl Parser<'_> {
    fn either(&mut self) -> Parsed<Node> {
        let mut nodes = vec![self.both()?];
        while self.passes(&Token::Or)? {
            nodes.push(self.both()?);
        }
        Ok(one_or(nodes, Node::Any))
    }

    fn both(&mut self) -> Parsed<Node> {
        let mut nodes = vec![self.part()?];
        while self.passes(&Token::And)? {
            nodes.push(self.part()?);
        }
        Ok(one_or(nodes, Node::All))
    }

    fn part(&mut self) -> Parsed<Node> {
        let column = self.column;
        match self.step()? {
            Token::Not => Ok(Node::Not(Box::new(self.deeper(column, Self::part)?))),
            Token::Open => {
                let node = self.deeper(column, Self::either)?;
                self.expect_close(column)?;
                Ok(node)
            }
            Token::Exists => {
                self.expect(&Token::Open, "after `exists`, `(` and a name would do")?;
                let at = self.column;
                let Token::Name(name) = self.step()? else {
                    return refuse(at, "a name would do here, such as exists(section)");
                };
                self.expect(&Token::Close, "after the name, `)` would do")?;
                Ok(Node::Exists(named(name, at)?))
            }
            Token::Name(name) => self.comparison(&name, column),
            Token::End => refuse(
                column,
                "the expression ends here; a comparison would do, such as section = \"sport\"",
            ),
            found => refuse(
                column,
                format!(
                    "a comparison would do here, such as section = \"sport\", but not {}",
                    found.shown()
                ),
            ),
        }
    }

    /// What follows the name `word`, which stands at `column`.
    fn comparison(&mut self, word: &str, column: usize) -> Parsed<Node> {
        let name = named(word.to_owned(), column)?;
        let at = self.column;
        let relation = match self.step()? {
            Token::Equals => {
                let literal = self.literal(&name)?;
                return Ok(one_of(name, vec![literal]));
            }
            Token::In => return self.list(name),
            Token::Differs => match self.literal(&name)? {
                Literal::Text(text) => return Ok(Node::IsOther(name, text.into())),
                Literal::Number(number) => {
                    return Ok(Node::Compares(name, Relation::Other, number));
                }
            },
            Token::Less => Relation::Less,
            Token::AtMost => Relation::AtMost,
            Token::More => Relation::More,
            Token::AtLeast => Relation::AtLeast,
            Token::Not => {
                let word = shown(word);
                return refuse(at, format!("write not ({word} in (...)), or {word} != ..."));
            }
            found => {
                let (word, found) = (shown(word), found.shown());
                return refuse(
                    at,
                    format!(
                        "after the name `{word}` one of =, !=, <, <=, >, >=, in would do, but not \
                         {found}; exists({word}) asks whether it is known"
                    ),
                );
            }
        };
        let at = self.column;
        match self.literal(&name)? {
            Literal::Number(number) => Ok(Node::Compares(name, relation, number)),
            Literal::Text(_) => refuse(at, "only numbers have an order: a number would do here"),
        }
    }

    /// The list after `in`.
    fn list(&mut self, name: Name) -> Parsed<Node> {
        let opened = self.column;
        self.expect(&Token::Open, "after `in`, a list would do, such as (\"a\", \"b\")")?;
        let mut literals = vec![self.literal(&name)?];
        while self.passes(&Token::Comma)? {
            literals.push(self.literal(&name)?);
        }
        self.expect_close(opened)?;
        Ok(one_of(name, literals))
    }

    fn literal(&mut self, of: &Name) -> Parsed<Literal> {
        let column = self.column;
        match self.step()? {
            // As in the context itself: tags are told apart whatever the case of their letters.
            Token::Text(text) if matches!(of, Name::Field(Field::Language)) => {
                Ok(Literal::Text(text.to_ascii_lowercase()))
            }
            Token::Text(text) => Ok(Literal::Text(text)),
            Token::Number(number) => Ok(Literal::Number(number)),
            Token::Name(word) => {
                let word = shown(&word);
                refuse(column, format!("text stands in double quotes: \"{word}\""))
            }
            found => {
                let found = found.shown();
                refuse(column, format!("a text or a number would do here, but not {found}"))
            }
        }
    }

    /// What `inner` parses, one level deeper; `column` is where that level begins.
    fn deeper(&mut self, column: usize, inner: fn(&mut Self) -> Parsed<Node>) -> Parsed<Node> {
        if self.depth == EXPRESSION_NESTING_MAX {
            let max = EXPRESSION_NESTING_MAX;
            return refuse(column, format!("parentheses and `not` are nested deeper than {max}"));
        }
        self.depth += 1;
        let node = inner(self)?;
        self.depth -= 1;
        Ok(node)
    }

    /// The word that is next; the one after it is next then.
    fn step(&mut self) -> Parsed<Token> {
        let (column, token) = self.lexer.next()?;
        self.column = column;
        Ok(std::mem::replace(&mut self.token, token))
    }

    /// Whether `token` is next; it is passed then.
    fn passes(&mut self, token: &Token) -> Parsed<bool> {
        let is_next = self.token == *token;
        if is_next {
            self.step()?;
        }
        Ok(is_next)
    }

    fn expect(&mut self, token: &Token, otherwise: &str) -> Parsed<()> {
        if self.passes(token)? { Ok(()) } else { self.refuse(otherwise) }
    }

    /// A `)` for the `(` at the column `opened`.
    fn expect_close(&mut self, opened: usize) -> Parsed<()> {
        if self.passes(&Token::Close)? {
            return Ok(());
        }
        let found = self.token.shown();
        self.refuse(format!("`)` would do for the `(` at column {opened}, but not {found}"))
    }

    fn refuse<T>(&self, message: impl Into<String>) -> Parsed<T> {
        refuse(self.column, message)
    }
}

fn refuse<T>(column: usize, message: impl Into<String>) -> Parsed<T> {
    Err(SyntaxError { column, message: message.into() })
}

/// The only one of `nodes`, or what `all` makes of them.
fn one_or(nodes: Vec<Node>, all: fn(Box<[Node]>) -> Node) -> Node {
    match <[Node; 1]>::try_from(nodes) {
        Ok([node]) => node,
        Err(nodes) => all(nodes.into()),
    }
}

fn one_of(name: Name, literals: Vec<Literal>) -> Node {
    let (mut texts, mut numbers) = (Vec::new(), Vec::new());
    for literal in literals {
        match literal {
            Literal::Text(text) => texts.push(text.into()),
            Literal::Number(number) => numbers.push(number),
        }
    }
    Node::IsOneOf(name, texts.into(), numbers.into())
}

/// What `word` at `column` asks for.
fn named(word: String, column: usize) -> Parsed<Name> {
    let Some(field) = word.strip_prefix(FIELD_PREFIX) else { return Ok(Name::Value(word.into())) };
    if let Some((field, _)) = Field::ALL.into_iter().find(|(_, name)| *name == field) {
        return Ok(Name::Field(field));
    }
    let all = Field::ALL.map(|(_, name)| name).join(", ");
    let word = shown(&word);
    refuse(column, format!("`{word}` is not known; after `{FIELD_PREFIX}`, {all} would do"))
}

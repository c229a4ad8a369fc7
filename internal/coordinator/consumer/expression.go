package consumer

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
)

// expressionBytesMax bounds an expression; what matches takes time in proportion to it and to the
// names of all topics.
const expressionBytesMax = 1024

// programMax bounds how many steps an expression is compiled to. The library's own bound allows 128
// MiB of them.
const programMax = 10_000

// programSize is about how many steps an expression is compiled to.
func programSize(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		size += programSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(1, re.Min, re.Max) // the parser allows 1,000, also of nested ones together
	}
	return size
}

// compile refuses what is no expression of RE2, and keeps what it is compiled to: one that a
// topic's whole name has to match.
func (g *Group) compile(expression string) error {
	if g.patterns[expression] != nil {
		return nil
	}
	if len(expression) > expressionBytesMax {
		return fmt.Errorf("%w: longer than %d bytes", ErrInvalidExpression, expressionBytesMax)
	}
	// by itself, or "a)(b" would pass in parentheses
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidExpression, err)
	}
	if programSize(parsed) > programMax {
		return fmt.Errorf("%w: its repetitions are too many", ErrInvalidExpression)
	}
	whole, err := regexp.Compile(`\A(?:` + expression + `)\z`)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidExpression, err)
	}
	g.patterns[expression] = whole
	return nil
}

// resolve finds the topics of all expressions that members have, when the topics are others than
// when that was last done, or an expression is new; and drops those that nobody has.
func (t *turn) resolve() {
	g, used := t.g, map[string]bool{}
	t.all(func(m *Member) {
		if m.Expression != "" {
			used[m.Expression] = true
		}
	})
	for expression := range g.resolved {
		if !used[expression] {
			t.resolved[expression] = nil
		}
	}
	for expression := range used {
		has, known := g.resolved[expression]
		if known && g.seen == t.topics || g.compile(expression) != nil {
			continue // one of a newer format than ours keeps its topics
		}
		if found := t.match(g.patterns[expression]); !known || !slices.Equal(found, has.Topics) {
			t.resolved[expression] = &Resolved{Topics: found, AtMs: t.now.UnixMilli()}
		}
	}
	for expression := range g.patterns {
		if !used[expression] {
			delete(g.patterns, expression)
		}
	}
}

func (t *turn) match(pattern *regexp.Regexp) (names []string) {
	for topic := range t.topics.All {
		if pattern.MatchString(topic.Name) {
			names = append(names, topic.Name)
		}
	}
	slices.Sort(names)
	return names
}

// subscribed is the names of topics that a member subscribes to, by name or by expression, be they
// there or not.
func (t *turn) subscribed(m *Member) map[string]bool {
	names := make(map[string]bool, len(m.Topics))
	for _, name := range m.Topics {
		names[name] = true
	}
	if m.Expression == "" {
		return names
	}
	matched := t.g.resolved[m.Expression].Topics
	if now := t.resolved[m.Expression]; now != nil {
		matched = now.Topics
	}
	for _, name := range matched {
		names[name] = true
	}
	return names
}

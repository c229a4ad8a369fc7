package consumer

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
)

// expressionBytesMax limits the length of an expression, because the time for matching is
// proportional to this length and to the total length of all topic names.
const expressionBytesMax = 1024

// programMax limits the number of instructions in a compiled expression. Package regexp itself
// allows 128 MiB of instructions, which is too much memory for a single request.
const programMax = 10_000

// programSize estimates the number of instructions in a compiled expression.
func programSize(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		size += programSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		// This does not overflow, because the parser limits the product of nested repetition counts to
		// 1,000.
		size *= max(1, re.Min, re.Max)
	}
	return size
}

// compile compiles an RE2 expression and caches the result. The expression must match a topic's
// whole name.
func (g *Group) compile(expression string) error {
	if g.patterns[expression] != nil {
		return nil
	}
	if len(expression) > expressionBytesMax {
		return fmt.Errorf("%w: longer than %d bytes", ErrInvalidExpression, expressionBytesMax)
	}
	// Parse the expression as the client sent it. Inside the parentheses added below, "a)(b" would be
	// valid.
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidExpression, err)
	}
	if programSize(parsed) > programMax {
		return fmt.Errorf("%w: too many repetitions", ErrInvalidExpression)
	}
	whole, err := regexp.Compile(`\A(?:` + expression + `)\z`)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidExpression, err)
	}
	g.patterns[expression] = whole
	return nil
}

// resolveExpressions computes which topics each member's expression matches, if the expression is
// new or the topics have changed. It removes expressions that no member uses.
func (t *transition) resolveExpressions() {
	g, used := t.g, map[string]bool{}
	t.eachMember(func(m *Member) {
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
		if known && g.currentFor == t.topics || g.compile(expression) != nil {
			// Either nothing has changed, or the expression does not compile, because another version of
			// Heartwood has stored it.
			continue
		}
		if found := t.match(g.patterns[expression]); !known || !slices.Equal(found, has.Topics) {
			t.resolved[expression] = &Resolved{Topics: found, ResolvedMs: t.now.UnixMilli()}
		}
	}
	for expression := range g.patterns {
		if !used[expression] {
			delete(g.patterns, expression)
		}
	}
}

func (t *transition) match(pattern *regexp.Regexp) (names []string) {
	for topic := range t.topics.All {
		if pattern.MatchString(topic.Name) {
			names = append(names, topic.Name)
		}
	}
	slices.Sort(names)
	return names
}

// subscribed returns the names of the topics to which a member subscribes, by name or by
// expression. Topics that are subscribed by name do not have to exist.
func (t *transition) subscribed(m *Member) map[string]bool {
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

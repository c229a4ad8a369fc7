package certname

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Rules map the text of a distinguished name to a principal's name (KIP-371,
// ssl.principal.mapping.rules). The first rule whose pattern matches the whole text applies.
type Rules []rule

type rule struct {
	pattern     *regexp.Regexp // nil: rule DEFAULT, which returns the distinguished name
	replacement string         // in the syntax of package regexp
	change      func(string) string
}

// ErrNoRule means that no rule matches a distinguished name.
var ErrNoRule = errors.New("no principal rule matches the distinguished name")

// ruleForm matches RULE:pattern/replacement/ with an optional L or U. A slash in the pattern or the
// replacement is escaped.
var ruleForm = regexp.MustCompile(`^RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)$`)

// reference matches a group reference $1 in a replacement. Package regexp expects ${1}.
var reference = regexp.MustCompile(`\$(\d+)`)

// ParseRules parses rules. If texts is empty, the only rule is DEFAULT. Patterns have Go's syntax,
// which has no look-ahead and no back references.
func ParseRules(texts []string) (Rules, error) {
	if len(texts) == 0 {
		return Rules{{}}, nil
	}
	rules := make(Rules, 0, len(texts))
	for _, text := range texts {
		if strings.TrimSpace(text) == "DEFAULT" {
			rules = append(rules, rule{})
			continue
		}
		parts := ruleForm.FindStringSubmatch(strings.TrimSpace(text))
		if parts == nil {
			return nil, fmt.Errorf("parse principal rule %q: want DEFAULT or "+
				"RULE:pattern/replacement/, with L or U behind it for lower or upper case", text)
		}
		pattern, err := regexp.Compile(`^(?:` + strings.ReplaceAll(parts[1], `\/`, `/`) + `)$`)
		if err != nil {
			return nil, fmt.Errorf("parse principal rule %q: %w", text, err)
		}
		r := rule{pattern: pattern,
			replacement: reference.ReplaceAllString(strings.ReplaceAll(parts[2], `\/`, `/`), "$${$1}")}
		switch parts[3] {
		case "L":
			r.change = strings.ToLower
		case "U":
			r.change = strings.ToUpper
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// Apply returns the principal's name for a distinguished name, or ErrNoRule.
func (r Rules) Apply(dn string) (string, error) {
	for _, one := range r {
		if one.pattern == nil {
			return dn, nil
		}
		match := one.pattern.FindStringSubmatchIndex(dn)
		if match == nil {
			continue
		}
		name := string(one.pattern.ExpandString(nil, one.replacement, dn, match))
		if one.change != nil {
			name = one.change(name)
		}
		return name, nil
	}
	return "", ErrNoRule
}

package chart

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// query is what the parser below makes of PromQL: as much of the language as our dashboards and
// alerts use, and no more. What it does not know is an error, so a query that uses more has to
// teach it first.
type query struct {
	sorted []string // labels of the result
	scalar bool
	ranged bool   // a range vector, which only a function of those takes
	kind   string // counter, gauge or histogram, of a plain selector
}

// metricOf is a metric of docs/metrics.md.
type metricOf struct {
	kind   string
	labels []string
}

// targetLabels are what Prometheus adds to each series of a broker
// (charts/heartwood/templates/podmonitor.yaml).
var targetLabels = []string{"namespace", "logcluster", "pod"}

var metricRow = regexp.MustCompile(
	"(?m)^\\| `(heartwood_[a-z_]+)` \\| ([a-z]+) \\| ([a-z_, ]*) \\|",
)

// inventory reads the table of the metrics page.
func inventory(page string) map[string]metricOf {
	all := map[string]metricOf{}
	for _, row := range metricRow.FindAllStringSubmatch(page, -1) {
		metric := metricOf{kind: row[2], labels: slices.Clone(targetLabels)}
		for label := range strings.SplitSeq(row[3], ",") {
			if label = strings.TrimSpace(label); label != "" {
				metric.labels = append(metric.labels, label)
			}
		}
		all[row[1]] = metric
		if metric.kind == "histogram" { // three series: _bucket, _sum and _count
			parts := metricOf{"counter", metric.labels}
			all[row[1]+"_sum"], all[row[1]+"_count"] = parts, parts
			all[row[1]+"_bucket"] = metricOf{"counter", append(slices.Clone(metric.labels), "le")}
		}
	}
	return all
}

var promToken = regexp.MustCompile(
	`^(?:\$?[a-zA-Z_][a-zA-Z0-9_]*|[0-9]+(?:\.[0-9]+)?[smhd]?|"[^"]*"|=~|!~|!=|==|>=|<=|[-+*/(){}\[\],=<>])`,
)

// parsePromQL parses a whole query; the error names what it stopped at.
func parsePromQL(text string, metrics map[string]metricOf) (result query, err error) {
	p := &promParser{metrics: metrics}
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		token := promToken.FindString(rest)
		if token == "" {
			return query{}, fmt.Errorf("no token at %q", rest)
		}
		p.tokens = append(p.tokens, token)
		rest = rest[len(token):]
	}
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case promFault: // of fail, below
			err = fault
		default:
			panic(fault)
		}
	}()
	result = p.expression()
	if len(p.tokens) > 0 {
		p.fail("what follows at %q is no part of it", p.tokens[0])
	}
	return result, nil
}

type promFault string

func (f promFault) Error() string { return string(f) }

type promParser struct {
	tokens  []string
	metrics map[string]metricOf
}

func (p *promParser) fail(format string,
	args ...any) {
	panic(promFault(fmt.Sprintf(format, args...)))
}

func (p *promParser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *promParser) take() string {
	token := p.peek()
	if token == "" {
		p.fail("it ends too soon")
	}
	p.tokens = p.tokens[1:]
	return token
}

func (p *promParser) expect(token string) {
	if got := p.take(); got != token {
		p.fail("%q where %q should be", got, token)
	}
}

// expression is operands with operators between them; precedence does not matter for what is
// checked here.
func (p *promParser) expression() query {
	left := p.operand()
	for slices.Contains([]string{"+", "-", "*", "/", ">", "<", ">=", "<=", "==", "!=", "and", "or",
		"unless"}, p.peek()) {
		operator := p.take()
		right := p.operand()
		switch {
		case left.ranged || right.ranged:
			p.fail("a range on a side of %q", operator)
		case left.scalar:
			left = right
		case right.scalar:
		case !slices.Equal(left.sorted, right.sorted):
			p.fail("sides of %q with other labels: %v and %v", operator, left.sorted, right.sorted)
		}
		left.kind = ""
	}
	return left
}

var (
	aggregations  = []string{"sum", "max", "min", "avg", "count"}
	rangeFuncs    = []string{"rate", "increase"}
	timelessFuncs = []string{"time"}
)

func (p *promParser) operand() query {
	switch token := p.take(); {
	case token == "(":
		inner := p.expression()
		p.expect(")")
		return inner
	case token[0] >= '0' && token[0] <= '9':
		return query{scalar: true}
	case slices.Contains(timelessFuncs, token):
		p.expect("(")
		p.expect(")")
		return query{scalar: true}
	case slices.Contains(aggregations, token):
		return p.aggregation(token)
	case token == "histogram_quantile":
		return p.quantile()
	case slices.Contains(rangeFuncs, token):
		p.expect("(")
		inner := p.expression()
		p.expect(")")
		if !inner.ranged || inner.kind != "counter" {
			p.fail("%s of something else than a range of a counter", token)
		}
		inner.ranged, inner.kind = false, ""
		return inner
	default:
		return p.selector(token)
	}
}

// quantile is histogram_quantile(0.99, buckets); the buckets' bounds are used up.
func (p *promParser) quantile() query {
	p.expect("(")
	if !p.operand().scalar {
		p.fail("a quantile that is no number")
	}
	p.expect(",")
	inner := p.expression()
	p.expect(")")
	bound := slices.Index(inner.sorted, "le")
	if bound < 0 {
		p.fail("a quantile of series without le")
	}
	return query{sorted: slices.Delete(slices.Clone(inner.sorted), bound, bound+1)}
}

// aggregation is sum(...), sum by (a, b) (...).
func (p *promParser) aggregation(name string) query {
	var by []string
	if p.peek() == "by" {
		p.take()
		p.expect("(")
		for p.peek() != ")" {
			by = append(by, p.take())
			if p.peek() == "," {
				p.take()
			}
		}
		p.expect(")")
	}
	p.expect("(")
	inner := p.expression()
	p.expect(")")
	if inner.scalar || inner.ranged {
		p.fail("%s of something else than series", name)
	}
	if inner.kind == "counter" && name != "count" {
		p.fail("%s of a counter, without a rate", name)
	}
	for _, label := range by {
		if !slices.Contains(inner.sorted, label) {
			p.fail("%s by %s, which no series in it has", name, label)
		}
	}
	slices.Sort(by)
	return query{sorted: by}
}

// selector is a metric with matchers, perhaps a range.
func (p *promParser) selector(name string) query {
	metric, ok := p.metrics[name]
	if !ok {
		p.fail("%s is not in docs/metrics.md", name)
	}
	if p.peek() == "{" {
		p.take()
		for p.peek() != "}" {
			label, operator, value := p.take(), p.take(), p.take()
			if !slices.Contains(metric.labels, label) {
				p.fail("%s has no label %s", name, label)
			}
			if !slices.Contains([]string{"=", "=~", "!=", "!~"}, operator) || value[0] != '"' {
				p.fail("matcher %s%s%s", label, operator, value)
			}
			if p.peek() == "," {
				p.take()
			}
		}
		p.expect("}")
	}
	result := query{kind: metric.kind, sorted: slices.Sorted(slices.Values(metric.labels))}
	if p.peek() == "[" {
		p.take()
		if length := p.take(); length != "$__rate_interval" &&
			(length[0] < '0' || length[0] > '9') {
			p.fail("range %q", length)
		}
		p.expect("]")
		result.ranged = true
	}
	return result
}

var legendLabel = regexp.MustCompile(`\{\{ *([a-z_]+) *\}\}`)

// checkLegend: a legend may name labels of the result only.
func checkLegend(legend string, q query) error {
	for _, label := range legendLabel.FindAllStringSubmatch(legend, -1) {
		if !slices.Contains(q.sorted, label[1]) {
			return fmt.Errorf("legend %q names %s, and the result has %v", legend, label[1],
				q.sorted)
		}
	}
	return nil
}

func TestTheParserRefusesWhatIsWrong(t *testing.T) {
	metrics := inventory(
		"| `heartwood_a_total` | counter | topic, kind | x |\n| `heartwood_b` | gauge |  | x |\n| `heartwood_h` | histogram |  | x |\n",
	)
	for _, good := range []string{
		`heartwood_b`, `sum by (topic) (rate(heartwood_a_total{kind="log",pod=~"x.*"}[5m]))`,
		`max(heartwood_b) > 0`,
		`time() - max by (pod) (heartwood_b{namespace=~"$n"} > 0)`,
		`count by (topic) (heartwood_a_total)`,
		`sum by (topic, pod) (increase(heartwood_a_total[$__rate_interval]))`,
		`histogram_quantile(0.99, sum by (le, pod) (rate(heartwood_h_bucket[5m])))`,
	} {
		if _, err := parsePromQL(good, metrics); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		`heartwood_c`:                              "not in docs/metrics.md",
		`heartwood_b{topic="x"}`:                   "no label topic",
		`sum by (topic) (heartwood_b)`:             "which no series in it has",
		`sum(heartwood_a_total)`:                   "without a rate",
		`rate(heartwood_b[5m])`:                    "range of a counter",
		`rate(heartwood_a_total)`:                  "range of a counter",
		`heartwood_a_total[5m] > 0`:                "a range on a side",
		`sum(heartwood_b`:                          "ends too soon",
		`histogram_quantile(0.5, heartwood_b)`:     "without le",
		`sum(heartwood_b))`:                        "no part of it",
		`heartwood_b{pod~"x"}`:                     "no token",
		`max by (pod) (heartwood_b) / heartwood_b`: "other labels",
		``: "ends too soon",
	} {
		if _, err := parsePromQL(bad, metrics); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", bad, err, want)
		}
	}
}

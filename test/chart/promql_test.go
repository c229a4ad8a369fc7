package chart

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// query is the type of a PromQL expression. The parser in this file supports only the part of
// PromQL that the dashboards and alerts use, and returns an error for everything else. If a query
// uses more of PromQL, the parser must be extended first.
type query struct {
	sorted []string // labels of the result, in alphabetical order
	scalar bool
	ranged bool   // true for a range vector, which only range functions accept
	kind   string // kind of a selector: "counter", "gauge" or "histogram"
}

// metricOf describes a metric in docs/operate/metrics.md.
type metricOf struct {
	kind   string
	labels []string
}

// targetLabels are the labels that Prometheus adds to each series of a broker
// (charts/heartwood/templates/podmonitor.yaml).
var targetLabels = []string{"namespace", "logcluster", "pod"}

var metricRow = regexp.MustCompile(
	"(?m)^\\| `((?:heartwood|process|controller_runtime)_[a-z_]+)` \\| ([a-z]+) \\| ([a-z_, ]*) \\|",
)

// inventory returns the metrics in page, which is the text of docs/operate/metrics.md, by name.
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
		if metric.kind == "histogram" { // a histogram is exported as _bucket, _sum and _count
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

// parsePromQL parses a whole query. The error contains the position at which parsing failed.
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
		case promFault: // a panic of the function fail
			err = fault
		default:
			panic(fault)
		}
	}()
	result = p.expression()
	if len(p.tokens) > 0 {
		p.fail("unexpected %q after the query", p.tokens[0])
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
		p.fail("unexpected end")
	}
	p.tokens = p.tokens[1:]
	return token
}

func (p *promParser) expect(token string) {
	if got := p.take(); got != token {
		p.fail("%q instead of %q", got, token)
	}
}

// expression parses operands separated by operators. It ignores the precedence of operators, which
// does not affect the checks.
func (p *promParser) expression() query {
	left := p.operand()
	for slices.Contains([]string{"+", "-", "*", "/", ">", "<", ">=", "<=", "==", "!=", "and", "or",
		"unless"}, p.peek()) {
		operator := p.take()
		right := p.operand()
		switch {
		case left.ranged || right.ranged:
			p.fail("a range vector is an operand of %q", operator)
		case left.scalar:
			left = right
		case right.scalar:
		case !slices.Equal(left.sorted, right.sorted):
			p.fail("operands of %q with different labels: %v and %v", operator, left.sorted,
				right.sorted)
		}
		left.kind = ""
	}
	return left
}

var (
	aggregations = []string{"sum", "max", "min", "avg", "count"}
	rangeFuncs   = []string{"rate", "increase"}
	// gaugeFuncs are functions that require a range vector of a gauge.
	gaugeFuncs    = []string{"changes", "max_over_time"}
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
	case token == "predict_linear":
		return p.prediction()
	case slices.Contains(rangeFuncs, token):
		p.expect("(")
		inner := p.expression()
		p.expect(")")
		if !inner.ranged || inner.kind != "counter" {
			p.fail("%s requires a range vector of a counter", token)
		}
		inner.ranged, inner.kind = false, ""
		return inner
	case slices.Contains(gaugeFuncs, token):
		p.expect("(")
		inner := p.expression()
		p.expect(")")
		if !inner.ranged || inner.kind != "gauge" {
			p.fail("%s requires a range vector of a gauge", token)
		}
		inner.ranged, inner.kind = false, ""
		return inner
	case token == "topk":
		p.expect("(")
		if k := p.expression(); !k.scalar {
			p.fail("topk requires a number")
		}
		p.expect(",")
		inner := p.expression()
		p.expect(")")
		if inner.scalar || inner.ranged {
			p.fail("topk requires an instant vector")
		}
		return inner // keeps all labels
	case token == "absent":
		p.expect("(")
		if inner := p.expression(); inner.scalar || inner.ranged {
			p.fail("absent requires an instant vector")
		}
		p.expect(")")
		return query{} // labels of the matchers only, which the checks do not need
	default:
		return p.selector(token)
	}
}

// quantile parses the arguments of histogram_quantile(0.99, buckets). The result does not have the
// label le.
func (p *promParser) quantile() query {
	p.expect("(")
	if !p.operand().scalar {
		p.fail("the quantile is not a number")
	}
	p.expect(",")
	inner := p.expression()
	p.expect(")")
	bound := slices.Index(inner.sorted, "le")
	if bound < 0 {
		p.fail("a quantile of series without the label le")
	}
	return query{sorted: slices.Delete(slices.Clone(inner.sorted), bound, bound+1)}
}

// prediction parses the arguments of predict_linear(gauge[1h], 3600).
func (p *promParser) prediction() query {
	p.expect("(")
	inner := p.expression()
	if !inner.ranged || inner.kind != "gauge" {
		p.fail("predict_linear requires a range vector of a gauge")
	}
	p.expect(",")
	if !p.operand().scalar {
		p.fail("the time of the prediction is not a number")
	}
	p.expect(")")
	inner.ranged, inner.kind = false, ""
	return inner
}

// aggregation parses the rest of an expression such as sum(...) or sum by (a, b) (...).
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
		p.fail("%s requires an instant vector", name)
	}
	if inner.kind == "counter" && name != "count" {
		p.fail("%s of a counter without rate or increase", name)
	}
	for _, label := range by {
		if !slices.Contains(inner.sorted, label) {
			p.fail("%s by the unknown label %s", name, label)
		}
	}
	slices.Sort(by)
	return query{sorted: by}
}

// selector parses a metric with matchers and an optional range.
func (p *promParser) selector(name string) query {
	metric, ok := p.metrics[name]
	if !ok {
		p.fail("%s is not in docs/operate/metrics.md", name)
	}
	if p.peek() == "{" {
		p.take()
		for p.peek() != "}" {
			label, operator, value := p.take(), p.take(), p.take()
			if !slices.Contains(metric.labels, label) {
				p.fail("%s has no label %s", name, label)
			}
			if !slices.Contains([]string{"=", "=~", "!=", "!~"}, operator) || value[0] != '"' {
				p.fail("invalid matcher %s%s%s", label, operator, value)
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
			p.fail("invalid range %q", length)
		}
		p.expect("]")
		result.ranged = true
	}
	return result
}

var legendLabel = regexp.MustCompile(`\{\{ *([a-z_]+) *\}\}`)

// checkLegend checks that every label in a legend is a label in the query's result.
func checkLegend(legend string, q query) error {
	for _, label := range legendLabel.FindAllStringSubmatch(legend, -1) {
		if !slices.Contains(q.sorted, label[1]) {
			return fmt.Errorf("legend %q uses %s, but the result has %v", legend, label[1],
				q.sorted)
		}
	}
	return nil
}

func TestParserRejectsInvalidQueries(t *testing.T) {
	metrics := inventory(
		"| `heartwood_a_total` | counter | topic, kind | x |\n| `heartwood_b` | gauge |  | x |\n| `heartwood_h` | histogram |  | x |\n",
	)
	for _, valid := range []string{
		`absent(heartwood_b)`, `changes(heartwood_b{pod!=""}[1h]) > 3`,
		`heartwood_b`, `sum by (topic) (rate(heartwood_a_total{kind="log",pod=~"x.*"}[5m]))`,
		`max(heartwood_b) > 0`, `max(max_over_time(heartwood_b[5m])) < max(heartwood_b)`,
		`time() - max by (pod) (heartwood_b{namespace=~"$n"} > 0)`,
		`count by (topic) (heartwood_a_total)`,
		`sum by (topic, pod) (increase(heartwood_a_total[$__rate_interval]))`,
		`histogram_quantile(0.99, sum by (le, pod) (rate(heartwood_h_bucket[5m])))`,
		`predict_linear(heartwood_b[6h], 3600) < 0`,
		`topk(20, max by (pod) (heartwood_b))`,
	} {
		if _, err := parsePromQL(valid, metrics); err != nil {
			t.Errorf("%s: %v", valid, err)
		}
	}
	for invalid, want := range map[string]string{
		`heartwood_c`:                              "not in docs/operate/metrics.md",
		`heartwood_b{topic="x"}`:                   "no label topic",
		`sum by (topic) (heartwood_b)`:             "unknown label topic",
		`sum(heartwood_a_total)`:                   "without rate",
		`rate(heartwood_b[5m])`:                    "range vector of a counter",
		`changes(heartwood_a_total[5m])`:           "range vector of a gauge",
		`absent(heartwood_b[5m])`:                  "requires an instant vector",
		`topk(3, heartwood_b[5m])`:                 "requires an instant vector",
		`rate(heartwood_a_total)`:                  "range vector of a counter",
		`heartwood_a_total[5m] > 0`:                "a range vector is an operand",
		`sum(heartwood_b`:                          "unexpected end",
		`histogram_quantile(0.5, heartwood_b)`:     "without the label le",
		`predict_linear(heartwood_b, 3600)`:        "range vector of a gauge",
		`sum(heartwood_b))`:                        "unexpected",
		`heartwood_b{pod~"x"}`:                     "no token",
		`max by (pod) (heartwood_b) / heartwood_b`: "different labels",
		``: "unexpected end",
	} {
		if _, err := parsePromQL(invalid, metrics); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", invalid, err, want)
		}
	}
}

// Command brokerconfigsdoc generates docs/use/broker-configs.md and docs/use/topic-configs.md from
// the tables in internal/brokerconfig and internal/topicconfig. Its argument is brokers or topics.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"heartwood.dev/heartwood/internal/brokerconfig"
)

func main() {
	page := brokers
	if len(os.Args) == 2 && os.Args[1] == "topics" {
		page = topics
	}
	if err := page(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const intro = `# Settings of brokers

Generated from ` + "`internal/brokerconfig`" + ` by ` + "`make generate`" + `; do not edit.

` + "`kafka-configs --describe --entity-type brokers --entity-name 0 --all`" + ` lists the settings on this
page. They have Kafka's names, types and units. The defaults are those in effect here.

## Settings that Kafka's clients can change

Each of them is a field of the LogCluster and applies to all brokers: to Kafka's tools it is a
dynamic default of all brokers. A change takes effect without a restart, also where Kafka requires
one. It is refused for a single broker, if ` + "`adminAPI`" + ` is ` + "`ReadOnly`" + `, and in ` + "`heartwood dev`" + ` if a manifest
describes the LogCluster.

` + "```" + `
kafka-configs --bootstrap-server ... --alter --entity-type brokers --entity-default \
  --add-config log.retention.ms=86400000
` + "```" + `

`

func brokers(out io.Writer) error {
	var text strings.Builder
	text.WriteString(intro)
	text.WriteString("| setting | type | default | field of the LogCluster | meaning |\n" +
		"|---|---|---|---|---|\n")
	for _, p := range brokerconfig.All() {
		if p.Alterable() {
			fmt.Fprintf(&text, "| %s | %s | %s | `%s` | %s |\n", p.Name, p.Type, standard(p),
				p.Field, cell(p.Doc))
		}
	}
	text.WriteString("\n## Read-only settings\n\n" +
		"Their values are fixed, or follow from a field that Kafka's clients cannot change.\n\n" +
		"| setting | type | value | field of the LogCluster | meaning |\n|---|---|---|---|---|\n")
	for _, p := range brokerconfig.All() {
		if p.Alterable() {
			continue
		}
		field := ""
		if p.Field != "" {
			field = "`" + p.Field + "`"
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", p.Name, p.Type, standard(p), field,
			cell(p.Doc))
	}
	text.WriteString("\n## Settings of Kafka that are not listed\n\n" +
		"A name that ends with a dot stands for all settings with this prefix that are not above.\n\n" +
		"| settings | reason |\n|---|---|\n")
	for _, o := range brokerconfig.Omissions() {
		fmt.Fprintf(&text, "| %s | %s |\n", strings.Join(o.Names, ", "), o.Reason)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// standard returns a setting's default as text.
func standard(p *brokerconfig.Property) string {
	switch {
	case p.Own:
		return "of the broker"
	case p.Null && p.Fallback != "":
		return "none: " + p.Fallback
	case p.Null:
		return "none"
	case p.Default == "" && p.Field != "":
		return "as the field"
	case p.Default == "":
		return "empty"
	}
	return p.Default
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

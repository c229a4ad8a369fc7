package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"heartwood.dev/heartwood/internal/brokerconfig"
	"heartwood.dev/heartwood/internal/topicconfig"
)

const topicsIntro = `# Settings of topics: Kafka's properties and the fields of a Topic

Generated from ` + "`internal/topicconfig`" + ` and ` + "`internal/brokerconfig`" + ` by ` + "`make generate`" + `; do not
edit.

A setting has Kafka's name for Kafka's tools and clients, and is a field of the Topic resource. Both
change the same value. Fields have units: ` + "`retention.time: 168h`" + ` is
` + "`retention.ms=604800000`" + `, and ` + "`compaction.minDirtyPercent: 50`" + ` is
` + "`min.cleanable.dirty.ratio=0.5`" + `. [Resources](resources.md) describes each field with its rules. The
number of partitions and replicas is ` + "`spec.partitions`" + ` and ` + "`spec.replicas`" + `.

## From Kafka's property to the field

The default of the last column applies to topics that do not set the property. It is a field of the
LogCluster, and has a name among [the settings of brokers](broker-configs.md).

| property | type | default | field of the Topic | name of the default in the broker |
|---|---|---|---|---|
`

// topics writes the page of topic properties.
func topics(out io.Writer) error {
	var text strings.Builder
	text.WriteString(topicsIntro)
	type row struct{ field, property string }
	var rows []row
	for _, p := range topicconfig.Default().Properties() {
		broker := brokerconfig.OfTopic(p.Name)
		if broker == nil {
			return fmt.Errorf("topic property %s has no broker setting", p.Name)
		}
		field := "spec." + strings.TrimPrefix(broker.Field, "spec.topicDefaults.")
		fmt.Fprintf(&text, "| %s | %s | %s | `%s` | %s |\n", p.Name, broker.Type, standard(broker),
			field, broker.Name)
		rows = append(rows, row{field, p.Name})
	}
	text.WriteString("\n## From the field to Kafka's property\n\n" +
		"| field of the Topic | property |\n|---|---|\n")
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.field, b.field), cmp.Compare(a.property, b.property))
	})
	for _, r := range rows {
		fmt.Fprintf(&text, "| `%s` | %s |\n", r.field, r.property)
	}
	text.WriteString("\n## Properties without effect\n\n" +
		"Tools and migrations set them. A value that requests no effect is accepted and not stored;" +
		" other\nvalues are refused with the reason.\n\n| property | accepted values | reason |\n|---|---|---|\n")
	for _, p := range topicconfig.IgnoredProperties() {
		fmt.Fprintf(&text, "| %s | %s | %s |\n", p.Name, cell(p.Allowed), p.Reason)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// size formats a number of bytes with three significant digits and a binary unit, such as 1.14 TiB.
func size(bytes float64) string {
	const units = "KMGTPE"
	if bytes < 1000 {
		return strconv.FormatFloat(math.Round(bytes), 'f', 0, 64) + " B"
	}
	unit := -1
	for bytes >= 1000 && unit+1 < len(units) {
		bytes /= 1024
		unit++
	}
	return digits(bytes) + " " + units[unit:unit+1] + "iB"
}

// count formats a number with three significant digits and a decimal unit, such as 1.6 billion.
func count(n float64) string {
	if n < 10_000 {
		return digits(n)
	}
	units := []string{"thousand", "million", "billion", "trillion"}
	unit := -1
	for n >= 1000 && unit+1 < len(units) {
		n /= 1000
		unit++
	}
	return digits(n) + " " + units[unit]
}

// digits formats a number with three significant digits, without trailing zeros.
func digits(x float64) string {
	switch {
	case x >= 99.95 || x == math.Trunc(x):
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x >= 9.995:
		return trimmed(strconv.FormatFloat(x, 'f', 1, 64))
	}
	return trimmed(strconv.FormatFloat(x, 'f', 2, 64))
}

func trimmed(text string) string { return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") }

// span formats a duration with a suitable unit, such as 1.5 min.
func span(seconds float64) string {
	for _, unit := range []struct {
		name    string
		seconds float64
	}{{"days", daySeconds}, {"h", 3600}, {"min", 60}} {
		if seconds >= 2*unit.seconds || unit.name != "days" && seconds >= unit.seconds {
			return digits(seconds/unit.seconds) + " " + unit.name
		}
	}
	return digits(seconds) + " s"
}

// Print writes the plan: as text, or as one JSON object.
func (p Plan) Print(out io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(p)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	p.printHead(table)
	p.printDisk(table)
	p.printCleaning(table)
	p.printRepublication(table)
	p.printKafka(table)
	if len(p.Notes) > 0 {
		line(table, "\nNotes")
	}
	for _, note := range p.Notes {
		line(table, "- "+note)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print plan: %w", err)
	}
	return nil
}

// line writes a line of cells. It ignores errors, because the tabwriter's Flush returns them.
func line(out io.Writer, cells ...string) {
	_, _ = fmt.Fprintln(out, strings.Join(cells, "\t"))
}

func (p Plan) printHead(out io.Writer) {
	in := p.Input
	line(
		out,
		fmt.Sprintf(
			"%s keys of %s (%s on disk), %s updates per second, %d partitions, %d replicas, "+
				"%d brokers",
			count(in.Keys),
			size(in.RecordBytes),
			size(p.StoredRecordBytes),
			count(in.UpdateRate),
			in.Partitions,
			in.Replicas,
			in.Brokers,
		),
	)
}

func (p Plan) printDisk(out io.Writer) {
	line(out, "\nDisk", "partition", "topic", "broker")
	row := func(name string, measure func(Disk) float64) {
		line(out, "  "+name, size(measure(p.Partition)), size(measure(p.Topic)), size(measure(p.Broker)))
	}
	row("live records", func(d Disk) float64 { return d.LiveBytes })
	row("after a pass", func(d Disk) float64 { return d.AfterBytes })
	row("when a pass is due", func(d Disk) float64 { return d.DueBytes })
	row("+ key sidecars", func(d Disk) float64 { return d.SidecarBytes })
	row("+ active segment, work", func(d Disk) float64 { return d.WorkBytes })
	row("needed", func(d Disk) float64 { return d.NeededBytes })
	row("after a republication", func(d Disk) float64 { return d.RepublishedTo })
	line(out, "  segments", count(p.Partition.Segments), count(p.Topic.Segments),
		count(p.Broker.Segments))
}

func (p Plan) printCleaning(out io.Writer) {
	line(out, "\nCleaning")
	every := "never: no updates"
	if p.PassEverySeconds > 0 {
		every = "every " + span(p.PassEverySeconds)
	}
	line(out, "  a partition's pass is due", every)
	printPass(out, p.Pass)
	if p.PassSeconds > 0 {
		line(out, "  pass duration", span(p.PassSeconds)+" at the I/O rate")
	}
	line(out, "  topic per day",
		fmt.Sprintf("%s appended; cleaners read and write %s", size(p.AppendedBytesDay),
			size(p.CleanerBytesDay)))
	line(out, "  write amplification",
		digits(p.WriteAmplification)+" records rewritten per appended record")
	if p.BusyShare > 0 {
		line(out, "  I/O rate in use", digits(p.BusyShare*100)+" %")
	}
	line(out, "  memory per worker",
		fmt.Sprintf("%s for any number of keys, in %s hash slices; %s of bitmaps",
			size(p.Memory.BudgetBytes), count(p.Memory.Slices), size(p.Memory.BitmapBytes)))
}

// printPass prints the work of one pass over one partition.
func printPass(out io.Writer, pass Pass) {
	line(out, "  pass reads", fmt.Sprintf("%s of log, %s of sidecars", size(pass.LogReadBytes),
		size(pass.SidecarReadBytes)))
	line(out, "  pass writes", fmt.Sprintf("%s of log, %s of sidecars", size(pass.LogWrittenBytes),
		size(pass.SidecarWrittenBytes)))
	line(out, "  pass reclaims", size(pass.FreedBytes))
}

func (p Plan) printRepublication(out io.Writer) {
	line(out, "\nRepublication of every key, then one pass per partition")
	if p.Republication.WriteSeconds > 0 {
		line(out, "  republication", span(p.Republication.WriteSeconds))
	}
	printPass(out, p.Republication.Pass)
	if p.Republication.PassSeconds > 0 {
		line(out, "  passes per broker",
			span(p.Republication.PassSeconds)+" at the I/O rate")
	}
}

func (p Plan) printKafka(out io.Writer) {
	if p.Kafka == nil {
		return
	}
	line(out, "\nApache Kafka's cleaner",
		fmt.Sprintf("with a buffer of %s: %s keys per pass", size(p.Input.KafkaBufferBytes),
			count(p.Kafka.KeysPerPass)))
	row := func(name string, cost KafkaCost) {
		line(
			out,
			"  "+name,
			fmt.Sprintf("%s passes per partition; per copy of the topic: %s read, %s written",
				count(cost.Passes), size(cost.ReadBytes), size(cost.WrittenBytes)),
		)
	}
	row("steady state", p.Kafka.Steady)
	row("republication", p.Kafka.Republication)
}

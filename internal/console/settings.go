package console

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"heartwood.dev/heartwood/internal/console/kafka"
	"heartwood.dev/heartwood/internal/remote"
)

// settingRow is a topic setting, with its value in a readable form.
type settingRow struct {
	kafka.Setting
	Text          string // "" if Value needs no explanation
	OtherwiseText string
}

// settingRows returns the rows for a topic's settings. Settings that do not exist in Kafka, which
// are taken from the brokers' reports, come first.
func settingRows(settings []kafka.Setting, answers remote.Answers) []settingRow {
	var rows []settingRow
	for _, setting := range settings {
		row := settingRow{setting, settingText(setting.Name, setting.Value),
			settingText(setting.Name, setting.Overridden)}
		if setting.Name == "flush.messages" {
			rows = append(rows, settingRow{Setting: kafka.Setting{Name: "durability",
				Value: durabilityOf(setting.Value), Source: setting.Source,
				Overridden: durabilityOf(setting.Overridden)}})
		}
		rows = append(rows, row)
	}
	rows = append(rows, cleanerSettings(answers)...)
	slices.SortStableFunc(rows, func(a, b settingRow) int { return own(a) - own(b) })
	return rows
}

// own returns 0 for settings that do not exist in Kafka and 1 for others, so that the former are
// sorted first. Their names contain no dot.
func own(row settingRow) int {
	if strings.ContainsRune(row.Name, '.') || row.Name == "preallocate" {
		return 1
	}
	return 0
}

// cleanerSettings returns the cleaner's settings that do not exist in Kafka. The reports do not
// contain the sources of their values.
func cleanerSettings(answers remote.Answers) (rows []settingRow) {
	for i := range answers.Partitions {
		c := answers.Partitions[i].Compaction
		if c == nil || c.MaxGarbagePercent == nil {
			continue
		}
		source := "Topic or LogCluster"
		rows = append(rows, settingRow{Setting: kafka.Setting{Name: "maxGarbagePercent",
			Value: strconv.Itoa(*c.MaxGarbagePercent), Source: source},
			Text: strconv.Itoa(*c.MaxGarbagePercent) + " %"})
		if c.CleanCompression != "" {
			rows = append(rows, settingRow{Setting: kafka.Setting{Name: "cleanCompression",
				Value: c.CleanCompression, Source: source}})
		}
		return rows
	}
	return nil
}

// durabilityOf returns the value of a Topic's field durability that corresponds to flush.messages.
func durabilityOf(flushMessages string) string {
	switch flushMessages {
	case "":
		return ""
	case "1":
		return "Fsync"
	}
	return "Replicated"
}

// settingText returns a value with its unit, or "" if the value has no unit. The last part of the
// name determines the unit.
func settingText(name, value string) string {
	n, err := strconv.ParseInt(value, 10, 64)
	_, unit, _ := cutLast(name, ".")
	switch {
	case unit == "ratio":
		return ratioText(value)
	case err != nil:
		return ""
	case n == math.MaxInt64, n == -1 && strings.HasPrefix(name, "retention."):
		return "no limit"
	case n < 0:
		return ""
	case unit == "ms":
		return exactDuration(n)
	case unit == "bytes":
		return formatBytes(n)
	}
	return ""
}

func cutLast(text, separator string) (before, after string, found bool) {
	index := strings.LastIndex(text, separator)
	if index < 0 {
		return text, "", false
	}
	return text[:index], text[index+len(separator):], true
}

func ratioText(value string) string {
	ratio, err := strconv.ParseFloat(value, 64)
	if err != nil || ratio < 0 || ratio > 1 {
		return ""
	}
	return strconv.FormatFloat(math.Round(ratio*1e6)/1e4, 'f', -1, 64) + " %"
}

// exactDuration formats a number of milliseconds in the largest unit of which it is a multiple. If
// the number is a multiple of none of them, such as 604800001, the result is approximate.
func exactDuration(milliseconds int64) string {
	const ms = int64(time.Millisecond)
	if milliseconds == 0 {
		return "0 s"
	}
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"},
		{time.Second, "second"}} {
		if in := int64(unit.length) / ms; milliseconds%in == 0 {
			return plural(milliseconds/in, unit.name)
		}
	}
	if milliseconds > math.MaxInt64/ms || milliseconds < int64(time.Second)/ms {
		return formatCount(milliseconds) + " ms"
	}
	return "about " + formatDuration(time.Duration(milliseconds*ms))
}

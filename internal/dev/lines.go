package dev

import (
	"fmt"
	"strings"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// topicLine is what people read of a topic: its name, then key=value.
func topicLine(t *metadata.Topic) string {
	s := t.Settings
	words := []string{
		"topic " + t.Name,
		fmt.Sprintf("partitions=%d", len(t.Partitions)),
		fmt.Sprintf("replicas=%d", len(t.Partitions[0].Replicas)),
	}
	switch {
	case s.Compact && s.Delete:
		words = append(words, "cleanup="+string(v1alpha1.CleanupCompactDelete))
	case s.Compact:
		words = append(words, "cleanup="+string(v1alpha1.CleanupCompact))
	default:
		words = append(words, "cleanup="+string(v1alpha1.CleanupDelete))
	}
	words = append(words, "compression="+metadata.CompressionText(t.Settings))
	if s.Compact {
		words = append(words, fmt.Sprintf("minDirtyPercent=%d", s.MinDirtyPercent))
	}
	if s.Delete {
		words = append(words, "retention="+age(s.RetentionTime))
	}
	if s.Delete && s.RetentionBytes >= 0 {
		words = append(words, fmt.Sprintf("retentionBytes=%d", s.RetentionBytes))
	}
	return strings.Join(words, " ")
}

// age writes 24h, not 24h0m0s; a negative one is no limit.
func age(d time.Duration) string {
	if d < 0 {
		return "unlimited"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// readyLine says where everything is. Exactly one is ever printed.
func readyLine(bootstrap []string, http, dataDir string) string {
	return fmt.Sprintf("ready bootstrap=%s http=http://%s data=%s", strings.Join(bootstrap, ","),
		http, dataDir)
}

// changedLines are the lines for what became of topics from one image to the next.
func changedLines(before, after *metadata.Image) []string {
	var lines []string
	for _, topic := range after.Topics {
		old := before.TopicByID(topic.ID)
		if old == nil || topicLine(old) != topicLine(topic) {
			lines = append(lines, topicLine(topic))
		}
	}
	for _, topic := range before.Topics {
		if after.TopicByID(topic.ID) != nil {
			continue
		}
		records := "deleted"
		if topic.RetainData {
			records = "retained"
		}
		lines = append(lines, fmt.Sprintf("topic %s deleted records=%s", topic.Name, records))
	}
	return lines
}

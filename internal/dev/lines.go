package dev

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// topicLine returns a topic's output line, which contains the topic's name and key=value pairs.
func topicLine(t *metadata.Topic) string {
	s := t.Settings
	fields := []string{
		"topic " + t.Name,
		fmt.Sprintf("partitions=%d", len(t.Partitions)),
		fmt.Sprintf("replicas=%d", len(t.Partitions[0].Replicas)),
	}
	switch {
	case s.Compact && s.Delete:
		fields = append(fields, "cleanup="+string(v1alpha1.CleanupCompactDelete))
	case s.Compact:
		fields = append(fields, "cleanup="+string(v1alpha1.CleanupCompact))
	default:
		fields = append(fields, "cleanup="+string(v1alpha1.CleanupDelete))
	}
	fields = append(fields, "compression="+metadata.CompressionText(t.Settings))
	if s.Compact {
		fields = append(fields, fmt.Sprintf("minDirtyPercent=%v", s.MinDirtyPercent))
	}
	if s.Delete {
		fields = append(fields, "retention="+formatAge(s.RetentionTime))
	}
	if s.Delete && s.RetentionBytes >= 0 {
		fields = append(fields, fmt.Sprintf("retentionBytes=%d", s.RetentionBytes))
	}
	return strings.Join(fields, " ")
}

// formatAge formats a duration without trailing zero units: 24h, not 24h0m0s. A negative duration
// means unlimited.
func formatAge(d time.Duration) string {
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

// readyLine returns the ready line with the addresses. It is printed exactly once.
func readyLine(bootstrap []string, http, dataDir string) string {
	return fmt.Sprintf("ready bootstrap=%s http=http://%s data=%s console=http://%s%s",
		strings.Join(bootstrap, ","), http, dataDir, http, consolePath)
}

// changedLines returns a line for each topic that was created, changed or deleted between two
// metadata images.
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

// clusterLine returns the line for a change of the LogCluster. It contains the LogCluster's name
// and the new values of the changed fields. Without a change, clusterLine returns "".
func clusterLine(before, after *v1alpha1.LogCluster) string {
	switch {
	case before == nil && after == nil:
		return ""
	case after == nil:
		return "logcluster " + before.Name + " deleted: the defaults apply"
	case before == nil:
		before = &v1alpha1.LogCluster{}
	}
	old, current := map[string]string{}, map[string]string{}
	flatten(old, "spec", before.Spec)
	flatten(current, "spec", after.Spec)
	var fields []string
	for _, path := range slices.Sorted(maps.Keys(current)) {
		if current[path] != old[path] {
			fields = append(fields, path+"="+current[path])
		}
	}
	for _, path := range slices.Sorted(maps.Keys(old)) {
		if _, set := current[path]; !set {
			fields = append(fields, path+"=unset")
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return "logcluster " + after.Name + " " + strings.Join(fields, " ")
}

// flatten adds a value's fields by their JSON paths. A list counts as one field.
func flatten(into map[string]string, path string, value any) {
	content, err := json.Marshal(value)
	if err != nil {
		return // cannot fail: a spec was read from JSON
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(content, &fields) != nil {
		text := strings.Trim(string(content), `"`)
		if duration, err := time.ParseDuration(text); err == nil && strings.HasSuffix(text, "s") {
			text = formatAge(duration)
		}
		into[path] = text
		return
	}
	for name, field := range fields {
		flatten(into, path+"."+name, field)
	}
}

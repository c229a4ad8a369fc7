package console

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/remote"
)

// keyBytesMax is the maximum size of a key that brokers look up.
const keyBytesMax = 16 << 10

// Values of keys.As: the format of the key in the form.
const (
	asText   = "text"
	asBase64 = "base64"
	asHex    = "hex"
)

// keys is the tab Keys of a topic, with its form. It shows the records of one key that are still on
// disk.
type keys struct {
	Topic     string
	Key       string // in the format of the form
	As        string // asText, asBase64 or asHex
	Partition string // "": first the default partitioner's partition; "all"; or a number

	Asked   bool // true if the form was sent
	Shown   excerpt
	Verdict string // one sentence about the key's value
	Tone    string // tone of the verdict
	Widened string // reason why all partitions were searched after the first one, or ""
	Found   []keyPartition
	Missing string // partitions whose leaders did not respond; "" if all did
}

// keyPartition is a partition that was searched for the key.
type keyPartition struct {
	Partition, Broker int32
	State             string
	Cost              string // bytes and segments that the search has read
	Incomplete        string // reason why older records may exist; "" if the search was complete
	Records           []keyRow
}

// keyRow is one record with the key.
type keyRow struct {
	Offset    int64
	Time      instant
	State     string // shown in bold
	Why       string // meaning of the state, and reason why the record is still on disk
	From      instant
	Live      bool
	Tombstone bool
	Value     excerpt
	Headers   []headerRow
	Whole     string // relative URL of the page with the whole record
	Next      string // relative URL of the record that supersedes this one, or ""
	NextAt    int64
}

// keyLink returns the relative URL of the page with a key's records. The URL contains the key in
// base64 if a form cannot keep it unchanged, for example because of control characters. For null
// keys and keys that are too long for a lookup, keyLink returns "".
func keyLink(topic string, key []byte) string {
	if key == nil || len(key) > keyBytesMax {
		return ""
	}
	text, as := string(key), asText
	if shown, isHex := printable(key); isHex || shown != text || strings.ContainsAny(text, "\n\t") {
		text, as = base64.StdEncoding.EncodeToString(key), asBase64
	}
	return query("topic", "name", topic, "tab", "keys", "key", text, "as", as)
}

// parseKeys parses the form. The page contains the fields of the form even if parseKeys returns an
// error.
func parseKeys(q url.Values, topic string) (page keys, key []byte, err error) {
	page = keys{Topic: topic, Key: q.Get("key"), As: q.Get("as"), Partition: q.Get("partition"),
		Asked: q.Has("key")}
	if !slices.Contains([]string{asBase64, asHex}, page.As) {
		page.As = asText
	}
	switch page.As {
	case asText:
		key = []byte(page.Key)
	case asBase64:
		key, err = parseBase64(page.Key)
	case asHex:
		key, err = hex.DecodeString(strings.Join(strings.Fields(page.Key), ""))
	}
	if err != nil {
		return page, nil, badRequest("The key is not " + page.As + ".")
	}
	if len(key) > keyBytesMax {
		return page, nil, badRequest("The key has " + formatBytes(len(key)) + "; a key of at most " +
			formatBytes(keyBytesMax) + " can be looked up.")
	}
	if page.Partition != "" && page.Partition != "all" {
		if n, err := strconv.ParseInt(page.Partition, 10, 32); err != nil || n < 0 {
			return page, nil, badRequest("The partition " + page.Partition + " is not a number.")
		}
	}
	page.Shown = excerptOf(key, valueBytesMax)
	return page, key, nil
}

// parseBase64 accepts the standard and the URL alphabet, with or without padding.
func parseBase64(text string) ([]byte, error) {
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimSpace(text))
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
}

// lookUp finds the records with the key in the request's form.
func (c *Console) lookUp(r *http.Request, topic string, partitions int) (keys, error) {
	page, key, err := parseKeys(r.URL.Query(), topic)
	if err != nil || !page.Asked {
		return page, err
	}
	q := remote.KeyQuery{Topic: topic, Key: key, Partition: -1, ValueBytes: valueBytesMax}
	switch page.Partition {
	case "":
	case "all":
		q.All = true
	default:
		n, _ := strconv.ParseInt(page.Partition, 10, 32) // parseKeys has validated it
		q.Partition = int32(n)
	}
	found, failed, err := c.records(r.Context(), q)
	if err == nil && page.Partition == "" && partitions > 1 && noRecord(&found) {
		// Search all partitions, because the producer may have used another partitioner.
		hashed := found.Partitions[0].Partition
		q.All = true
		if found, failed, err = c.records(r.Context(), q); err == nil {
			page.Widened = "Kafka's default partitioner chooses partition " + formatCount(hashed) +
				" for this key, which has no record of it. So all partitions were searched."
		}
	}
	if err != nil {
		return page, err
	}
	page.describe(&found, failed)
	return page, nil
}

// records requests the records with a key. If a broker refuses the request, records returns a fault
// with the broker's text.
func (c *Console) records(ctx context.Context, q remote.KeyQuery) (report.Keys,
	[]remote.Unanswered, error) {
	found, failed, err := c.opts.Fleet.Keys(ctx, q)
	var refused *remote.Refused
	if errors.As(err, &refused) {
		return found, failed, &fault{status: refused.Status,
			text: "The broker at " + refused.Address + " refused the lookup: " + err.Error() + "."}
	}
	return found, failed, err
}

// noRecord reports whether the search of a single partition was complete and found no record.
func noRecord(found *report.Keys) bool {
	return len(found.Partitions) == 1 && len(found.Elsewhere) == 0 &&
		found.Partitions[0].Complete && len(found.Partitions[0].Records) == 0
}

// describe sets the fields of the page that describe the result of a search.
func (page *keys) describe(found *report.Keys, failed []remote.Unanswered) {
	for i := range found.Partitions {
		p := &found.Partitions[i]
		if len(found.Partitions) > 1 && len(p.Records) == 0 && p.Complete {
			continue
		}
		page.Found = append(page.Found, page.partitionOf(p))
	}
	var missing []string
	for _, e := range found.Elsewhere {
		missing = append(missing, formatCount(e.Partition))
	}
	if len(missing) > 0 {
		page.Missing = "The leaders of these partitions did not respond: " +
			strings.Join(missing, ", ") + "."
		for _, unanswered := range failed {
			page.Missing += " " + unanswered.Address + ": " + unanswered.Err.Error() + "."
		}
	}
	page.Verdict, page.Tone = verdictOf(found)
}

// verdictOf describes the key's value.
func verdictOf(found *report.Keys) (verdict, tone string) {
	if len(found.Elsewhere) > 0 {
		return "The latest record of the key is unknown, because not every partition was searched.",
			"bad"
	}
	latest, err := remote.LatestValue(found)
	var none *remote.NoValue
	switch {
	case errors.As(err, &none) && none.Unknown():
		return "The latest record of the key is unknown: the search ended at its limit before it " +
			"found one.", "bad"
	case errors.As(err, &none) && none.Deleted():
		return "The key is deleted: its latest record is a tombstone.", "wait"
	case err != nil:
		return "There is no committed record of the key.", "wait"
	}
	return "The key has a value of " + formatBytes(latest.ValueBytes) + ", written at offset " +
		formatCount(latest.Offset) + ".", "run"
}

func (page *keys) partitionOf(p *report.KeyPartition) keyPartition {
	line := keyPartition{Partition: p.Partition, Broker: p.Broker, State: p.State,
		Cost: "Read " + formatBytes(p.ReadBytes) + " for " + plural(p.Segments, "segment")}
	switch p.Scanned {
	case 0:
		line.Cost += ", all by their key sidecars."
	case p.Segments:
		line.Cost += ", all read through, because they have no key sidecar."
	default:
		line.Cost += ", of which " + formatCount(p.Scanned) + " without a key sidecar were read through."
	}
	if !p.Complete {
		line.Incomplete = "The search ended early, at its limit of 32 MiB, 2 seconds or 10,000 " +
			"records: older records of the key may exist."
		if len(p.Records) > 0 {
			line.Incomplete += " It begins at the end of the log, so the records below are the newest."
		}
	}
	for i := range p.Records {
		line.Records = append(line.Records, page.rowOf(p.Partition, &p.Records[i]))
	}
	return line
}

func (page *keys) rowOf(partition int32, r *report.KeyRecord) keyRow {
	row := keyRow{Offset: r.Offset, Time: at(&r.Timestamp), State: r.State,
		Live: r.State == report.RecordLive, Tombstone: r.Value == nil,
		Value: excerptOf(r.Value, valueBytesMax),
		Whole: query("message", "topic", page.Topic, "partition", partition, "offset", r.Offset)}
	row.Value.Bytes, row.Value.Cut = r.ValueBytes, r.ValueBytes > len(r.Value) || row.Value.Cut
	for i, h := range r.Headers {
		if i == headersMax {
			break
		}
		name, _ := printable([]byte(h.Key))
		row.Headers = append(row.Headers, headerRow{name, excerptOf(h.Value, valueBytesMax)})
	}
	if r.SupersededBy != nil {
		row.NextAt = *r.SupersededBy
		row.Next = query("message", "topic", page.Topic, "partition", partition, "offset", row.NextAt)
	}
	if r.GoesFrom != nil {
		row.From = at(r.GoesFrom)
	}
	row.Why = whyStill(r)
	return row
}

// keepWords contains the reason why a superseded or aborted record has not been removed yet, by the
// state of its segment.
var keepWords = map[string]string{
	report.SegmentClean:       "its segment has too little garbage for a rewrite so far",
	report.SegmentDirty:       "no pass has compared the keys of its segment yet",
	report.SegmentExpired:     "it is below the start of the log, and its segment is about to be deleted",
	report.SegmentUncompacted: "the topic is not compacted",
}

// tombstoneWords describes what the removal of a tombstone waits for, by report.KeyRecord.WaitsFor.
var tombstoneWords = map[string]string{
	report.WaitsForOlderRecord: "it waits until a pass has removed all older records of the key",
	report.WaitsForReplicas:    "it waits for replicas that may still have older records of the key",
	report.WaitsForRetention:   "it is kept for compaction.tombstoneRetention",
	report.WaitsForPass:        "the next pass that rewrites its segment may remove it",
}

// whyStill returns the reason why a record is still on disk, as far as its state does not show it.
func whyStill(r *report.KeyRecord) string {
	switch r.State {
	case report.RecordUndecided:
		return "its transaction, or one before it, has not ended"
	case report.RecordTombstone:
		switch {
		case r.WaitsFor == report.WaitsForPass && r.BlockedBy != "":
			return "its segment cannot be cleaned now: " + blockedText(r.BlockedBy)
		case r.WaitsFor == report.WaitsForPass && r.GoesFrom == nil:
			return "a pass has to find the older records of the key first"
		}
		return tombstoneWords[r.WaitsFor]
	case report.RecordSuperseded, report.RecordAborted:
		if r.BlockedBy != "" {
			return "its segment cannot be cleaned now: " + blockedText(r.BlockedBy)
		}
		return keepWords[r.SegmentState]
	}
	return ""
}

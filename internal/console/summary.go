package console

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/internal/pressure"
	"heartwood.dev/heartwood/internal/remote"
)

// topicRow describes one topic, according to the reports of its partitions' leaders.
type topicRow struct {
	Name       string
	Internal   bool // true for internal topics, which brokers use themselves
	Partitions int
	Replicas   int // total number of replicas of all partitions
	Compacted  bool
	Bytes      int64 // size of the leaders' logs
	Offsets    int64 // number of offsets from the start to the end of the logs
	Sections   sections
	// Garbage is the garbage in all partitions if GarbageKnown is true, and otherwise only in some of
	// them. GarbageExact is true if passes have counted the garbage in all partitions.
	Garbage                    int64
	GarbageKnown, GarbageExact bool
	reported                   int     // number of leaders that have reported their cleaner's state
	DirtyRatio                 float64 // highest ratio of all partitions
	Running                    int     // number of running passes, on leaders and followers
	Progress                   float64 // mean progress of the leaders' running passes, 0..1
	Reason, Message            string  // from condition Compacting
	// Records and Keys are the numbers of records and of distinct keys as text; "" if unknown.
	Records, Keys         string
	RecordCount, KeyCount *int64  // nil if unknown
	LastCleaned           instant // end of the last pass over the least recently cleaned partition
	Overdue               time.Duration
}

// sections contains the sizes in bytes of a compacted log's sections, by their state for the
// cleaner.
type sections struct{ Clean, Dirty, Blocked int64 }

func (s *sections) add(c *report.Compaction) {
	s.Clean += c.CleanBytes
	s.Dirty += c.DirtyBytes
	for _, n := range c.BlockedBytes {
		s.Blocked += n
	}
}

// Total returns the sum.
func (s sections) Total() int64 { return s.Clean + s.Dirty + s.Blocked }

// topicsOf summarizes the brokers' answers by topic, sorted by name.
func topicsOf(answers remote.Answers, now time.Time) []topicRow {
	byName := map[string]*topicRow{}
	for i := range answers.Placement.Partitions {
		p := &answers.Placement.Partitions[i]
		row := byName[p.Topic]
		if row == nil {
			row = &topicRow{Name: p.Topic, Internal: strings.HasPrefix(p.Topic, "__"),
				GarbageKnown: true, GarbageExact: true}
			byName[p.Topic] = row
		}
		row.Partitions++
		row.Replicas += len(p.Replicas)
	}
	replicas := map[string][]report.Partition{}
	for i := range answers.Partitions {
		p := &answers.Partitions[i]
		if row := byName[p.Topic]; row != nil {
			row.add(p)
			replicas[p.Topic] = append(replicas[p.Topic], *p)
		}
	}
	rows := make([]topicRow, 0, len(byName))
	for name, row := range byName {
		topic := summary.Of(summary.Metadata{Name: name, Partitions: row.Partitions,
			Replicas: row.Replicas, Compacted: row.Compacted},
			summary.Rows{Replicas: replicas[name], At: now},
			summary.Polled{Brokers: answers.Asked,
				Responded: answers.Asked - len(answers.Unanswered)})
		if topic.Compacting != nil {
			row.Reason, row.Message = topic.Compacting.Reason, topic.Compacting.Message
		}
		row.GarbageKnown = row.GarbageKnown && row.reported == row.Partitions
		row.Records, row.Keys = countTexts(&topic)
		row.RecordCount, row.KeyCount = topic.Records, topic.DistinctKeys
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, func(a, b topicRow) int { return strings.Compare(a.Name, b.Name) })
	return rows
}

// countTexts formats a topic's numbers of records and of distinct keys. An unknown number is "".
func countTexts(topic *summary.Topic) (records, keys string) {
	prefixes := [2]string{"", "at most "}
	if !topic.RecordsExact {
		prefixes = [2]string{"about ", "about "}
	}
	if topic.Records != nil {
		records = prefixes[0] + formatCount(*topic.Records)
	}
	if topic.DistinctKeys != nil {
		keys = prefixes[1] + formatCount(*topic.DistinctKeys)
	}
	return records, keys
}

// add adds a replica to the row of its topic.
func (row *topicRow) add(p *report.Partition) {
	c := p.Compaction
	if c != nil {
		row.Compacted = true
		if c.RunningPass != nil {
			row.Running++
		}
		row.Overdue = max(row.Overdue, seconds(c.OverdueSeconds))
	}
	if !p.Leader {
		return
	}
	row.Bytes += p.SizeBytes
	row.Offsets += max(0, p.LogEndOffset-p.LogStartOffset)
	if c == nil {
		return
	}
	row.reported++
	row.Sections.add(c)
	row.DirtyRatio = max(row.DirtyRatio, c.DirtyRatio)
	row.Progress = max(row.Progress, c.ProgressRatio)
	if c.ReclaimableBytes != nil {
		row.Garbage += *c.ReclaimableBytes
	} else {
		row.GarbageKnown = false
	}
	row.GarbageExact = row.GarbageExact && c.ReclaimableExact
	if last := at(c.LastSuccess); !last.IsZero() &&
		(row.LastCleaned.IsZero() || last.Before(row.LastCleaned.Time)) {
		row.LastCleaned = last
	}
}

// problem is a condition that may require an action of the user.
type problem struct {
	Severity  int // 0 is the worst
	Kind      string
	Topic     string // "": the problem concerns a broker
	Partition int32
	Broker    int32 // the broker concerned if Topic is ""
	Text      string
}

// problemsOf returns the problems, the worst first.
func problemsOf(answers remote.Answers) (found []problem) {
	for i := range answers.Placement.Partitions {
		p := &answers.Placement.Partitions[i]
		if one, ok := placementProblem(p); ok {
			found = append(found, one)
		}
	}
	for i := range answers.Partitions {
		found = append(found, replicaProblems(&answers.Partitions[i])...)
	}
	for i := range answers.Volumes {
		if one, ok := volumeProblem(&answers.Volumes[i]); ok {
			found = append(found, one)
		}
	}
	slices.SortStableFunc(found, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), strings.Compare(a.Topic, b.Topic),
			cmp.Compare(a.Partition, b.Partition))
	})
	return found
}

// volumeProblem returns the problem if a volume is under storage pressure.
func volumeProblem(v *report.Volume) (problem, bool) {
	volume := problem{Severity: 3, Kind: "Volume filling", Broker: v.Broker, Text: v.Message}
	switch pressure.ParseLevel(v.Pressure) {
	case pressure.None:
		return volume, false
	case pressure.Reject, pressure.Reserve:
		volume.Severity, volume.Kind = 0, "Records refused"
	case pressure.Warn:
		volume.Severity = 4
	}
	return volume, true
}

// refusing returns the volumes of the brokers that reject records.
func refusing(volumes []report.Volume) (found []report.Volume) {
	for i := range volumes {
		if pressure.ParseLevel(volumes[i].Pressure) >= pressure.Reject {
			found = append(found, volumes[i])
		}
	}
	return found
}

func placementProblem(p *report.PlacedPartition) (problem, bool) {
	line := problem{Topic: p.Topic, Partition: p.Partition}
	switch p.Reason {
	case "":
		return line, false
	case "ReplicaLost":
		line.Kind, line.Text = "Records lost", "The in-sync replicas have all lost their logs or "+
			"disks, so the partition stays offline until a person accepts the loss: kubectl "+
			"heartwood accept-loss "+p.Topic+"/"+strconv.Itoa(int(p.Partition))+", or heartwood dev "+
			"--accept-data-loss."
	case "LeaderOffline":
		line.Kind, line.Text = "Offline", "No in-sync replica is up, so the partition accepts neither "+
			"reads nor writes."
	case "LeaderStarting":
		line.Severity, line.Kind = 4, "Starting"
		line.Text = "The leader is about to serve the partition."
	case "UnderMinInSyncReplicas":
		line.Severity, line.Kind = 1, "Too few in sync"
		line.Text = plural(len(p.InSyncReplicas), "replica") + " of " +
			formatCount(len(p.Replicas)) + " in sync: writes with acks=all are refused."
	case "Reassigning":
		line.Severity, line.Kind, line.Text = 5, "Moving", "Replicas are being moved to other brokers."
	default:
		line.Severity, line.Kind = 4, "Under-replicated"
		line.Text = plural(len(p.InSyncReplicas), "replica") + " of " +
			formatCount(len(p.Replicas)) + " in sync."
	}
	return line, true
}

func replicaProblems(p *report.Partition) (found []problem) {
	add := func(severity int, kind, text string) {
		found = append(found, problem{Severity: severity, Kind: kind, Topic: p.Topic,
			Partition: p.Partition, Text: text})
	}
	broker := "On broker " + formatCount(p.Broker) + ": "
	if p.Fault != "" {
		add(0, "Replica failed", broker+p.Fault)
	}
	c := p.Compaction
	if c == nil {
		return found
	}
	if c.Reason == "Quarantined" {
		add(2, "Quarantined", broker+"the last pass failed and is retried with backoff: "+c.LastError)
	}
	if overdue := seconds(c.OverdueSeconds); overdue > 0 && p.Leader {
		add(3, "Overdue", "Superseded records are "+formatDuration(overdue)+
			" older than compaction.maxLag allows.")
	}
	if c.Reason == "BlockedByOpenTransaction" && p.Leader {
		add(3, "Blocked", "An open transaction holds back "+
			formatBytes(c.BlockedBytes["open_transaction"])+" of cleaning.")
	}
	return found
}

// passRow is a running pass.
type passRow struct {
	Topic     string
	Partition int32
	Broker    int32
	Leader    bool
	status
}

// runningOf returns the running passes; those on leaders come first.
func runningOf(answers remote.Answers) (rows []passRow) {
	for i := range answers.Partitions {
		p := &answers.Partitions[i]
		if p.Compaction != nil && p.Compaction.RunningPass != nil {
			rows = append(rows, passRow{p.Topic, p.Partition, p.Broker, p.Leader,
				statusOf(p.Compaction)})
		}
	}
	slices.SortStableFunc(rows, func(a, b passRow) int {
		switch {
		case a.Leader == b.Leader:
			return 0
		case a.Leader:
			return -1
		}
		return 1
	})
	return rows
}

package console

import (
	"bytes"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/console/cleanermap"
	"heartwood.dev/heartwood/internal/console/kafka"
	"heartwood.dev/heartwood/internal/remote"
)

var updateGolden = flag.Bool("update", false, "rewrite the golden files in testdata")

// goldenNow is the current time in all golden pages.
var goldenNow = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// ago returns the Unix time that is d before goldenNow.
func ago(d time.Duration) float64 { return float64(goldenNow.Add(-d).UnixMilli()) / 1000 }

// goldenAnswers returns the reports of two brokers, one of which does not respond.
func goldenAnswers() remote.Answers {
	placed := func(topic string, partition, leader int32, reason string) report.PlacedPartition {
		return report.PlacedPartition{Topic: topic, Partition: partition, Leader: leader,
			LeaderEpoch: 3, Replicas: []int32{leader, 1 - leader}, InSyncReplicas: []int32{leader},
			Reason: reason}
	}
	row := func(topic string, partition, broker int32, c *report.Compaction) report.Partition {
		return report.Partition{Broker: broker, Topic: topic, Partition: partition, Leader: true,
			LeaderEpoch: 3, SizeBytes: 12 << 20, Segments: 4, LogStartOffset: 100,
			LogEndOffset: 51_234, HighWatermark: 51_234, LastStableOffset: 51_234, Compaction: c}
	}
	lag := int64(12)
	running := placed("customers", 0, 0, "UnderReplicated")
	running.Lag = &lag
	return remote.Answers{
		Placement: report.Placement{
			Partitions: []report.PlacedPartition{running, placed("customers", 1, 0, ""),
				placed("events", 0, 1, "LeaderOffline"), placed("__consumer_offsets", 0, 0, "")},
			Brokers: []report.BrokerHost{{Broker: 0, Host: "demo-0"}, {Broker: 1, Host: "demo-1"}}},
		Partitions: []report.Partition{row("customers", 0, 0, goldenRunning()),
			row("customers", 1, 0, goldenIdle()), row("__consumer_offsets", 0, 0, goldenIdle())},
		Volumes: []report.Volume{{Broker: 0, Pressure: "Reject", UsedPercent: 93,
			TotalBytes: 10 << 30, FreeBytes: 700 << 20, RejectFreeBytes: 819 << 20,
			Message: "Broker 0 is at level Reject: it uses 93% of 10Gi."}},
		Unanswered: []remote.Unanswered{{Address: "demo-1:9644", Err: errors.New("refused")}},
		Asked:      2, Addresses: []string{"demo-0:9644", "demo-1:9644"},
	}
}

func goldenRunning() *report.Compaction {
	garbage, eta := int64(3<<20), 90.0
	return &report.Compaction{CleanBytes: 7 << 20, DirtyBytes: 4 << 20, DirtyRatio: 4.0 / 11,
		BlockedBytes:     map[string]int64{"active_segment": 1 << 20},
		Records:          new(int64(51_000)),
		ReclaimableBytes: &garbage, Phase: "rewriting", Reason: "Cleaning", Trigger: "dirty_ratio",
		ProgressRatio: 0.4, EtaSeconds: &eta,
		RunningPass: &report.Pass{Began: ago(time.Minute), Trigger: "dirty_ratio",
			BytesPerSecond: new(2.5 * (1 << 20)), ThrottledSeconds: 42.0}}
}

func goldenIdle() *report.Compaction {
	garbage, last := int64(1<<20), ago(time.Hour)
	return &report.Compaction{CleanBytes: 10 << 20, DirtyBytes: 1 << 20, DirtyRatio: 1.0 / 11,
		BlockedBytes:     map[string]int64{"active_segment": 1 << 20},
		ReclaimableBytes: &garbage, ReclaimableExact: true, Phase: "idle",
		Records: new(int64(40_000)), RecordsExact: true, DistinctKeys: new(int64(31_000)),
		Reason: "BelowDirtyRatio", LastSuccess: &last, OverdueSeconds: 7200}
}

// goldenLog returns the log customers-0, whose second segment is being rewritten by a pass.
func goldenLog() *cleanermap.Log {
	segment := func(base int64, state, blocked string, garbage int64) report.Segment {
		s := report.Segment{Base: base, LastOffset: base + 9_999, Bytes: 3 << 20, State: state,
			BlockedBy: blocked, Codec: "zstd", Records: new(int64(9_000)),
			Tombstones: new(int64(40)), GarbageBytes: &garbage, GarbageRecords: new(int64(2_500)),
			Clocks: []report.TombstoneClock{{Count: 30, Since: ago(time.Hour),
				GoesFrom: new(ago(-time.Hour)), WaitsFor: report.WaitsForRetention}}}
		return s
	}
	log := &cleanermap.Log{}
	log.ApplySegments(&report.SegmentsEvent{Whole: true,
		SegmentsOf: report.SegmentsOf{Topic: "customers", Leader: true, Compacted: true,
			LogEndOffset: 40_000, FirstDirtyOffset: 20_000, BoundOffset: 30_000, Total: 4},
		Segments: []report.Segment{segment(0, report.SegmentClean, "", 100<<10),
			segment(10_000, report.SegmentClean, "", 2<<20), segment(20_000, report.SegmentDirty, "", 0),
			segment(30_000, "blocked", "active_segment", 0)}})
	pass := goldenPass()
	pass.Result, pass.Ended, pass.Steps = "", nil, pass.Steps[:3]
	log.ApplyPass(pass)
	return log
}

// goldenPass returns a completed pass over customers-0.
func goldenPass() *report.PartitionPass {
	step := func(base, garbage int64, chosen bool) report.StepSegment {
		return report.StepSegment{Base: base, Bytes: 3 << 20, GarbageBytes: garbage, Chosen: chosen}
	}
	p := &report.PartitionPass{ID: 7, Topic: "customers", StepCount: 5,
		Steps: []report.Step{
			{After: 0.1, Kind: report.StepAnnounce, Segments: []report.StepSegment{
				step(0, 100<<10, false), step(10_000, 2<<20, true), step(20_000, 0, false)}},
			{After: 0.2, Kind: report.StepGroup, From: new(int64(10_000)), To: new(int64(20_000)),
				Segments: []report.StepSegment{step(10_000, 2<<20, true)}},
			{After: 0.3, Kind: report.StepRead, Base: new(int64(10_000)), Position: 1 << 20},
			{After: 0.5, Kind: report.StepReplace, From: new(int64(10_000)), To: new(int64(20_000)),
				Segments: []report.StepSegment{{Base: 10_000, Bytes: 1 << 20}}},
			{After: 0.6, Kind: report.StepEnd}}}
	p.Began, p.Ended, p.Trigger, p.Result = ago(time.Hour), new(ago(time.Hour-time.Second)),
		"requested", report.ResultSuccess
	p.ReadBytes, p.WrittenBytes, p.ReclaimedBytes = 3<<20, 1<<20, 2<<20
	p.ThrottledSeconds = 0.4
	p.RemovedRecords, p.RewrittenSegments, p.UntouchedSegments = 2_500, 1, 2
	return p
}

// hostileText is a key, value or name that would modify a page if it were shown as HTML.
const hostileText = `<script>alert("x")</script>` + "\x00\u202e"

func goldenRecords() []kafka.Record {
	return []kafka.Record{
		{Partition: 0, Offset: 41, Time: goldenNow, Key: []byte("C-1"), Value: []byte(`{"name":"Ada"}`),
			Headers: []kafka.Header{{Key: "trace", Value: []byte("a1")}}},
		{Partition: 0, Offset: 40, Time: goldenNow, Key: []byte("C-1"), Value: []byte("old"),
			Superseded: true},
		{Partition: 1, Offset: 7, Time: goldenNow, Key: []byte("C-2")},
		{Partition: 1, Offset: 6, Time: goldenNow, Value: []byte("\xff\xfe")},
		{Partition: 1, Offset: 5, Time: goldenNow, Key: []byte(hostileText),
			Value: []byte(hostileText)}}
}

func goldenKeys() keys {
	page := keys{Topic: "customers", Key: "C-2", As: asText, Partition: "all", Asked: true,
		Shown: excerptOf([]byte("C-2"), valueBytesMax)}
	page.describe(&report.Keys{Topic: "customers", Key: []byte("C-2"),
		Partitions: []report.KeyPartition{
			{Partition: 0, State: report.KeyUnknown, ReadBytes: 32 << 20, Segments: 9, Scanned: 9},
			{Partition: 1, Broker: 1, State: "deleted", Complete: true, ReadBytes: 8192, Segments: 4,
				Scanned: 1, Records: []report.KeyRecord{
					{Offset: 90, Timestamp: ago(time.Minute), State: report.RecordUndecided,
						Value: []byte("new"), ValueBytes: 3, SegmentState: "blocked",
						BlockedBy: "active_segment"},
					{Offset: 80, Timestamp: ago(time.Hour), State: report.RecordTombstone,
						SegmentState: report.SegmentClean, GoesFrom: new(ago(-time.Hour)),
						WaitsFor: report.WaitsForRetention},
					{Offset: 70, Timestamp: ago(2 * time.Hour), State: report.RecordSuperseded,
						SupersededBy: new(int64(80)), Value: []byte(hostileText), ValueBytes: 90_000,
						SegmentState: report.SegmentDirty}}}},
		Elsewhere: []report.KeyElsewhere{{Partition: 2, Broker: 2, Host: "demo-2"}}},
		[]remote.Unanswered{{Address: "demo-2:9644", Err: errors.New("refused")}})
	return page
}

func goldenGroups() []kafka.Group {
	return []kafka.Group{{Name: "readers", Type: "consumer", State: "Stable", Coordinator: 1,
		Members: []kafka.Member{{ID: "m1", Instance: "reader-0", Client: "app", Host: "/10.0.0.1",
			Partitions: 2}},
		Offsets: []kafka.GroupOffset{
			{Topic: "customers", Committed: 40_000, Start: 100, End: 51_234, Member: "reader-0",
				Next: goldenNow.Add(-3 * time.Minute)},
			{Topic: "customers", Partition: 1, Committed: 7, Start: 100, End: 51_234},
			{Topic: "gone", Committed: 7, Err: errors.New("the partition does not exist any more")}}},
		{Name: hostileText, Type: "classic", State: "Empty", Err: errors.New("not the coordinator")}}
}

// goldenTopic returns the page of topic customers with the given tab.
func goldenTopic(tab string) topicPage {
	answers := goldenAnswers()
	page := topicPage{Name: "customers", Tab: tab, Row: topicsOf(answers, goldenNow)[1]}
	switch tab {
	case "messages":
		page.Messages = messages{Topic: "customers", Position: "latest", Limit: pageRecords,
			Download: "download?name=customers", Looked: 40_000, Found: 3, Span: 2_100_000, Limited: "time", Hidden: 1, Unsure: 2,
			More: "topic?cursor=0%3A40&name=customers"}
		for _, r := range goldenRecords() {
			page.Messages.Records = append(page.Messages.Records,
				messageOf(&r, "customers", valueBytesMax))
		}
	case "keys":
		page.Keys = goldenKeys()
	case "replicas":
		page.Replicas, page.Sort = replicasOf(answers), goldenSort("-size")
	case "settings":
		page.Settings = settingRows([]kafka.Setting{{Name: "cleanup.policy", Value: "compact",
			Source: "topic", Overridden: "delete"},
			{Name: "flush.messages", Value: "1", Source: "topic", Overridden: "9223372036854775807"},
			{Name: "retention.ms", Value: "604800000", Source: "default"}}, answers)
	case "groups":
		page.Groups, page.Sort = groupRows(goldenGroups(), goldenNow), goldenSort("")
	}
	return page
}

func goldenTransactions() *remote.Transactions {
	open := func(partition int32, producer int64, hanging bool) report.OpenTransaction {
		return report.OpenTransaction{Broker: 1, TopicPartition: report.TopicPartition{
			Topic: "customers", Partition: partition}, Transaction: report.Transaction{
			ProducerID: producer, FirstOffset: 5, Since: ago(time.Hour), Hanging: hanging}}
	}
	return &remote.Transactions{Transactions: report.Transactions{
		TransactionalIDs: []report.TransactionalID{{TransactionalID: "payments", State: "Ongoing",
			Coordinator: 1, ProducerID: 7, TimeoutSeconds: 60, Since: new(ago(time.Hour)),
			Until: new(ago(-time.Hour)), Changed: ago(time.Minute), Unmarked: 1,
			Partitions: []report.TopicPartition{{Topic: "customers"}}}},
		Open: []report.OpenTransaction{open(0, 7, false), open(1, 9, true), open(2, 8, false)}}}
}

func goldenSort(by string) sorting {
	return sorted("page", url.Values{"search": {hostileText}, "sort": {by}}, []topicRow{},
		append(topicColumns, column[topicRow]{name: "lag"}))
}

// goldenTail returns the tab Messages while it follows the topic.
func goldenTail() view {
	page := goldenTopic("messages")
	m := &page.Messages
	m.Position, m.Key, m.Latest, m.More, m.Limited = positionTail, hostileText, true, "", ""
	for i, r := range goldenRecords() {
		m.Records[i].Same = sameKey(&r)
	}
	m.follow(map[int32]int64{0: 42, 1: 8})
	return view{Template: "topic", Title: "customers", Body: page, Live: m.Tail,
		Refresh: tailRefresh}
}

// goldenViews returns the views of all pages, by the name of the golden file.
func goldenViews() map[string]view {
	answers := goldenAnswers()
	topics := topicsOf(answers, goldenNow)
	pass := goldenPass()
	ofTopic := goldenAnswers()
	ofTopic.Placement.Partitions = ofTopic.Placement.Partitions[:2]
	frame := frameOf(&mapView{topic: "customers", followers: true}, &ofTopic,
		map[replicaID]*cleanermap.Log{{0, 0}: goldenLog()}, goldenNow)
	one, several := segmentPage{Topic: "customers"}, segmentPage{Topic: "customers"}
	one.describe(goldenLog(), 10_000, 10_000)
	several.describe(goldenLog(), 0, 20_000)
	list := topicList{Rows: topics, Search: hostileText, Most: 12 << 20, More: 3, Sort: goldenSort("size"), SortBy: "size"}
	brokers := brokerList{Rows: brokersOf(answers), Fault: "This page is not available.",
		Sort: goldenSort("-garbage"), Scrub: scrubPanelOf(goldenScrubs(), goldenNow)}
	brokers.Rows[0].Disks = []kafka.Disk{{Dir: "/data", LogBytes: 36 << 20, TotalBytes: 10 << 30,
		Usable: 9 << 30, Replicas: 3}}
	record := goldenRecords()[0]
	views := map[string]view{
		"overview": {Template: "overview", Title: "Overview", Body: overviewOf(answers, goldenNow)},
		"topics":   {Template: "topics", Title: "Topics", Body: list},
		"message": {Template: "message", Title: "Record", Body: recordPage{Topic: "customers",
			messageRow: messageOf(&record, "customers", wholeBytesMax), JSON: true,
			Toggle: "message?raw=1", Back: "topic?name=customers", Edge: "next",
			Previous: "message?go=previous"}},
		"groups":  {Template: "groups", Title: "Groups", Body: groupList{groupRows(goldenGroups(), goldenNow), true, goldenSort("-lag")}},
		"group":   {Template: "group", Title: "readers", Body: &groupRows(goldenGroups(), goldenNow)[0]},
		"brokers": {Template: "brokers", Title: "Brokers", Body: brokers},
		"map": {Template: "map", Title: "Cleaner map", Live: "live?topic=customers", Body: mapPage{
			Topic: "customers", Topics: compactedTopics(topics), Row: topics[1], Followers: true,
			Frame: frame, Passes: []passEntry{entryOf(pass)}, Sort: goldenSort("took"), Asked: true}},
		"segment":  {Template: "segment", Title: one.Title, Body: one},
		"segments": {Template: "segment", Title: several.Title, Body: several},
		"replay": {Template: "replay", Title: "Replay", Body: &replayPage{Topic: "customers",
			Name: "customers-0", Entry: entryOf(pass), Frames: framesOf("customers", pass), At: 2,
			Data: "frames?pass=7", Here: "replay?pass=7", Stories: storiesOf(&pass.Pass)}},
		"clean": {Template: "clean", Title: "Clean", Body: cleanPage{Topic: "customers",
			Row: topics[1], Doubt: "ada may not patch topics.", Fault: "No broker responds."}},
		"produce": {Template: "produce", Title: "Produce", Fault: "The value is not hex.",
			Body: producePage{Topic: "customers", Key: hostileText, Value: hostileText, As: "hex",
				Headers: hostileText, Tombstone: true}},
		"offsets": {Template: "offsets", Title: "Offsets", Fault: hostileText, Body: offsetsPage{
			Group: "readers", Topics: []string{"customers", hostileText}, To: kafka.ToOffset,
			At: hostileText, Targets: targets, Changes: changeRows([]kafka.Change{
				{Topic: "customers", Before: 40_000, After: 100, Cut: true},
				{Topic: "customers", Partition: 1, Before: -1, After: 7},
				{Topic: hostileText, Before: 7, After: -1}})}},
		"offsets-refused": {Template: "offsets", Title: "Offsets", Refusal: "ada may not.",
			Body: offsetsPage{Group: "readers", Members: 2}},
		"deletegroup": {Template: "deletegroup", Title: "Delete", Body: &goldenGroups()[0]},
		"users": {Template: "users", Title: "Users", Body: userList{Sort: goldenSort("principal"),
			LogUsers: []LogUser{{Name: "orders", Principal: "User:orders", Authentication: "Scram",
				ACLs: 2, Ready: true}, {Name: "new", Authentication: "TLS", Message: hostileText}},
			Users: []kafka.User{{Name: hostileText, Mechanisms: []string{"SCRAM-SHA-512"}}},
			ACLs: []kafka.ACL{{Principal: "User:*", Host: "*", Resource: "topic", Name: "orders-",
				Pattern: "prefixed", Operation: "read"}, {Principal: "User:a", Host: "10.0.0.1",
				Resource: "group", Name: hostileText, Pattern: "literal", Operation: "all",
				Deny: true}}, More: 3, Fault: "No broker responds."}},
		"users-none": {Template: "users", Title: "Users", Body: userList{Unsecured: true}},
		"transactions": {Template: "transactions", Title: "Transactions", Body: transactionList{
			Open: openRows(goldenTransactions()), Sort: goldenSort("id"),
			IDs: []idRow{idRowOf(goldenTransactions().TransactionalIDs[0])}, More: 1}},
		"transaction": {Template: "transaction", Title: "payments",
			Body: idRowOf(goldenTransactions().TransactionalIDs[0])},
		"abort": {Template: "abort", Title: "Abort", Body: abortPage{What: "the transaction of " +
			hostileText, ID: hostileText}},
		"fault": {Template: "fault", Title: "Not available", Status: http.StatusNotFound,
			Body: "There is no topic with the name " + hostileText + "."},
	}
	for _, tab := range tabs {
		views["topic-"+tab] = view{Template: "topic", Title: "customers", Body: goldenTopic(tab)}
	}
	views["topic-tail"] = goldenTail()
	for name, v := range views {
		v.Page = strings.SplitN(name, "-", 2)[0]
		if name != "fault" {
			v = (*Console)(nil).answered(v, answers)
		}
		views[name] = v
	}
	return views
}

// TestPagesMatchTheirGoldenFiles renders each page from fixed data. A change of a golden file must
// be reviewed as a change of the page. The browser tests check these pages for accessibility.
func TestPagesMatchTheirGoldenFiles(t *testing.T) {
	c := New(Options{Cluster: "demo", Loopback: true, Fleet: remote.NewFleet(&remote.Client{},
		[]string{"127.0.0.1:1"}, false)})
	t.Cleanup(c.Close)
	rendered := map[string]bool{"clusters": true, "login": true}
	for name, v := range goldenViews() {
		rendered[v.Template] = true
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/"+name,
				http.NoBody)
			recorder := httptest.NewRecorder()
			c.render(recorder, r, v)
			compareGolden(t, name, recorder, max(v.Status, http.StatusOK))
		})
	}
	site := newTestSite(t, SiteOptions{Authority: newRights()})
	compareGolden(t, "clusters", ask(t, site, "GET", "/", "", "Authorization", "Bearer admin"), 200)
	compareGolden(t, "login", ask(t, site, "POST", "/login", "token=wrong"), 401)
	for name := range templates {
		if !rendered[name] {
			t.Errorf("template %s has no golden page", name)
		}
	}
}

// compareGolden fails the test if the response has another status or differs from the golden file.
func compareGolden(t *testing.T, name string, response *httptest.ResponseRecorder, status int) {
	t.Helper()
	if response.Code != status {
		t.Fatalf("%s: got status %d, want %d: %s", name, response.Code, status, response.Body)
	}
	got := bytes.ReplaceAll(response.Body.Bytes(), []byte(assetVersion), []byte("VERSION"))
	golden := filepath.Join("testdata", "golden", name+".html")
	if *updateGolden {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v; to write it, run go test -update", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-golden +got); to rewrite it, run go test -update\n%s", golden, diff)
	}
}

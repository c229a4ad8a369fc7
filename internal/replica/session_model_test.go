package replica

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// sessionModel is a leader, and a follower and a consumer that fetch from it in sessions, while
// logs grow and lose their beginnings, leader epochs end, requests and answers are lost, and
// sessions are given up. The dumb model is a fetch without a session: whatever it tells, the
// session has to tell, and nothing else.
type sessionModel struct {
	t      *testing.T
	random *rand.Rand
	set    *Set
	store  *logstore.Store
	topics []*metadata.Topic

	replica metadata.InSync
	saying  saying
	wants   map[PartitionID]FetchPartition // of the follower

	consumer      SessionID
	consumerSaid  map[PartitionID]FetchPartition
	consumerTold  map[PartitionID]told
	consumerWants map[PartitionID]FetchPartition
	told          int // partitions
	quiet         int
}

const modelPartitions = 5

func newSessionModel(t *testing.T, random *rand.Rand) *sessionModel {
	disk := vfs.NewMem()
	if err := disk.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	store, err := logstore.Open(logstore.Options{FS: disk, Dir: "/data",
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	m := &sessionModel{
		t: t, random: random, store: store,
		set:     NewSet(Options{NodeID: self, Store: store, Cluster: "ours"}),
		replica: metadata.InSync{Broker: 2, Epoch: 1},
		wants:   map[PartitionID]FetchPartition{}, consumerSaid: map[PartitionID]FetchPartition{},
		consumerTold: map[PartitionID]told{}, consumerWants: map[PartitionID]FetchPartition{},
	}
	for _, name := range []string{"a", "b"} {
		topic := &metadata.Topic{Name: name, ID: metadata.NewID(), Settings: topicconfig.Default()}
		for i := range int32(modelPartitions) {
			topic.Partitions = append(topic.Partitions,
				&metadata.Partition{Index: i, Replicas: []int32{self, 2}, Leader: self,
					LeaderEpoch: 1, ISR: []int32{self, 2}})
		}
		m.topics = append(m.topics, topic)
	}
	m.apply()
	return m
}

func (m *sessionModel) close() {
	m.set.Close()
	if err := m.store.Close(); err != nil {
		m.t.Error(err)
	}
}

func (m *sessionModel) apply() {
	topics := make([]*metadata.Topic, len(m.topics))
	for i, topic := range m.topics {
		clone := *topic
		clone.Partitions = slices.Clone(topic.Partitions)
		topics[i] = &clone
	}
	brokers := []metadata.Broker{{ID: self, Epoch: 1}, {ID: 2, Epoch: 1}}
	if _, err := m.set.Apply(metadata.NewImage("ours", metadata.CleanerBudget{}, brokers,
		topics)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *sessionModel) pick() (*metadata.Topic, PartitionID) {
	topic := m.topics[m.random.IntN(len(m.topics))]
	return topic, id(topic.Name, int32(m.random.IntN(modelPartitions)))
}

// step changes something.
func (m *sessionModel) step() {
	topic, of := m.pick()
	log := m.store.Log(of)
	switch m.random.IntN(12) {
	case 0, 1, 2:
		m.set.Append(1, []ProducePartition{{ID: of, Batch: batch(m.t, "a record")}})
	case 3, 4, 5: // the follower has copied, or is new
		p := topic.Partitions[of.Index]
		m.wants[of] = FetchPartition{
			ID: of, Topic: topic.ID, Offset: log.LogEnd(), DurableEnd: log.LogEnd(),
			HighWater: log.HighWatermark(), LogStart: log.LogStart(),
			LeaderEpoch: p.LeaderEpoch, LastEpoch: -1, BytesMax: 1 << 20,
			TombstoneClean: int64(m.random.IntN(2)),
		}
	case 6: // it has not, or less
		if want, ok := m.wants[of]; ok {
			want.Offset = max(want.LogStart, want.Offset-1)
			want.DurableEnd = want.Offset
			m.wants[of] = want
		}
	case 7:
		delete(m.wants, of)
		delete(m.consumerWants, of)
	case 8, 9:
		m.consumerWants[of] = FetchPartition{
			ID: of, Topic: topic.ID,
			Offset:      log.LogStart() + m.random.Int64N(log.LogEnd()-log.LogStart()+1),
			LeaderEpoch: -1, LastEpoch: -1, BytesMax: 1 << 20,
		}
	case 10:
		p := *topic.Partitions[of.Index]
		p.LeaderEpoch++
		p.Leader = []int32{self, 2}[m.random.IntN(2)]
		topic.Partitions[of.Index] = &p
		m.apply()
	default:
		if hw := log.HighWatermark(); hw > log.LogStart() {
			if err := log.DeleteBefore(hw); err != nil {
				m.t.Fatal(err)
			}
		}
	}
}

// trouble is what a fetch meets.
type sessionTrouble int

const (
	noTrouble sessionTrouble = iota
	requestLost
	answerLost
	sessionsLost
	requestRepeated
)

func (m *sessionModel) trouble() sessionTrouble {
	if n := m.random.IntN(20); n < 4 {
		return sessionTrouble(n + 1)
	}
	return noTrouble
}

// loseSessions is what happens when the leader needs room, or starts again.
func (m *sessionModel) loseSessions() {
	m.set.sessions.table.each(func(in *session) { m.set.endSession(in) })
	if n := len(m.set.sessions.watch.entries); n != 0 {
		m.t.Fatalf("%d partitions are watched for sessions that are over", n)
	}
}

// followerFetch is one fetch of the follower, built as a fetcher does.
func (m *sessionModel) followerFetch() {
	if m.saying.isNew() {
		m.saying.begin()
	}
	for _, at := range m.saying.said {
		if _, wanted := m.wants[at.ID]; !wanted {
			m.saying.forget(KeyOf(at.Topic, at.ID))
		}
	}
	req := FetchRequest{BytesMin: 1, BytesMax: 1 << 30, Replica: &m.replica}
	for _, want := range sortedWants(m.wants) {
		at := FollowerPartition{
			ID: want.ID, Topic: want.Topic, LeaderEpoch: want.LeaderEpoch, Offset: want.Offset,
			LastEpoch: want.LastEpoch, HighWater: want.HighWater,
			DurableEnd: want.DurableEnd, LogStart: want.LogStart,
			TombstoneClean: want.TombstoneClean, BytesMax: want.BytesMax,
		}
		if m.saying.say(&at) {
			req.Partitions = append(req.Partitions, want)
		}
	}
	req.Session, req.Forgotten = m.saying.id, m.saying.forgotten
	whole := FetchRequest{BytesMin: 1, BytesMax: 1 << 30, Replica: &m.replica,
		Partitions: sortedWants(m.wants)}
	trouble := m.trouble()
	switch trouble {
	case requestLost:
		m.saying.failed()
		return
	case sessionsLost:
		m.loseSessions()
	}
	got, err := m.set.FetchInSession(m.t.Context(), req)
	if trouble == requestRepeated && err == nil && !m.saying.isNew() {
		release(got.Results)
		if got, err = m.set.FetchInSession(m.t.Context(), req); err == nil {
			m.t.Fatal("a repeated fetch is taken for the next one")
		}
	}
	defer release(got.Results)
	if err != nil || trouble == answerLost {
		m.saying.failed()
		return
	}
	m.saying.answered(got.Session)
	want := m.set.Fetch(m.t.Context(), whole)
	defer release(want)
	m.compare("follower", got.Results,
		slices.DeleteFunc(slices.Clone(want), func(r FetchResult) bool { return !r.MustRespond() }))
	m.told += len(got.Results)
	m.quiet += len(want) - len(got.Results)
}

func sortedWants(wants map[PartitionID]FetchPartition) []FetchPartition {
	return slices.SortedFunc(maps.Values(wants),
		func(a, b FetchPartition) int { return comparePartitions(a.ID, b.ID) })
}

// compare fails unless the same partitions are told the same.
func (m *sessionModel) compare(who string, got, want []FetchResult) {
	m.t.Helper()
	short := func(results []FetchResult) map[PartitionID]string {
		all := map[PartitionID]string{}
		for _, r := range results {
			bytes := 0
			if r.Data != nil {
				bytes = r.Data.Length
			}
			all[r.ID] = fmt.Sprintf(
				"error %v, %d bytes, start %d, high watermark %d, diverging %v, lonely %d",
				r.Err,
				bytes,
				r.LogStart,
				r.HighWater,
				r.Diverging,
				r.ReplicasTombstoneClean,
			)
		}
		return all
	}
	if a, b := short(got), short(want); len(got) != len(a) || !maps.Equal(a, b) {
		m.t.Errorf("the %s is told\n%v\nand not\n%v", who, a, b)
	}
}

// consumerFetch is one fetch of the consumer, which is simpler: it says what differs from what it
// has said.
func (m *sessionModel) consumerFetch() {
	req := FetchRequest{BytesMin: 1, BytesMax: 1 << 30, Session: m.consumer}
	if m.consumer.Epoch == SessionNew {
		clear(m.consumerSaid)
		clear(m.consumerTold)
	}
	for of, said := range m.consumerSaid {
		if _, wanted := m.consumerWants[of]; !wanted {
			req.Forgotten = append(req.Forgotten, KeyOf(said.Topic, of))
			delete(m.consumerSaid, of)
			delete(m.consumerTold, of)
		}
	}
	for _, want := range sortedWants(m.consumerWants) {
		if m.consumerSaid[want.ID] != want {
			req.Partitions = append(req.Partitions, want)
			m.consumerSaid[want.ID] = want
		}
	}
	trouble := m.trouble()
	switch trouble {
	case requestLost:
		m.consumer.Epoch = SessionNew
		return
	case sessionsLost:
		m.loseSessions()
	}
	got, err := m.set.FetchInSession(m.t.Context(), req)
	defer release(got.Results)
	if err != nil || trouble == answerLost {
		m.consumer.Epoch = SessionNew
		return
	}
	first := m.consumer.Epoch == SessionNew
	m.consumer = SessionID{got.Session, m.consumer.Epoch}.Next()
	want := m.set.Fetch(m.t.Context(),
		FetchRequest{BytesMin: 1, BytesMax: 1 << 30, Partitions: sortedWants(m.consumerWants)})
	defer release(want)
	var news []FetchResult
	for _, r := range want {
		now := told{r.HighWater, r.LogStart}
		before, known := m.consumerTold[r.ID]
		if first || r.MustRespond() || !known || before != now {
			news = append(news, r)
		}
		if m.consumerTold[r.ID] = now; r.Err != nil {
			delete(m.consumerTold, r.ID)
		}
	}
	m.compare("consumer", got.Results, news)
}

// TestSessionsTellWhatFetchesWithoutOneTell, whatever is lost.
func TestSessionsTellWhatFetchesWithoutOneTell(t *testing.T) {
	for s := range seed.Sequence(t, 60) {
		synctest.Test(t, func(t *testing.T) {
			m := newSessionModel(t, rand.New(rand.NewPCG(s, 0)))
			defer m.close()
			for range 150 {
				for range 1 + m.random.IntN(3) {
					m.step()
				}
				time.Sleep(glanceEvery) // what comes without an event is seen by then
				if m.random.IntN(2) == 0 {
					m.followerFetch()
				} else {
					m.consumerFetch()
				}
				if t.Failed() {
					return
				}
			}
			if m.told == 0 || m.quiet == 0 {
				t.Errorf("%d partitions were told of, %d left out: nothing was tested", m.told,
					m.quiet)
			}
		})
	}
}

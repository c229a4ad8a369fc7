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
	"heartwood.dev/heartwood/internal/replica/session"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// sessionModel simulates a leader, and a follower and a consumer that fetch from it in sessions.
// During the test, logs grow and lose records at their start, leader epochs end, requests and
// responses are lost, and sessions are evicted. The model compares the results of each fetch in a
// session with the results of a fetch without a session. They must be equal, except for partitions
// that have not changed.
type sessionModel struct {
	t      *testing.T
	random *rand.Rand
	set    *Set
	store  *logstore.Store
	topics []*metadata.Topic

	replica  metadata.InSync
	follower session.Follower[FollowerPartition]
	wants    map[PartitionID]FetchPartition // partitions that the follower fetches

	consumer         session.ID
	consumerSent     map[PartitionID]FetchPartition
	consumerReceived map[PartitionID]sentOffsets
	consumerWants    map[PartitionID]FetchPartition
	reported         int // number of partitions in responses to the follower
	omitted          int
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
		wants:   map[PartitionID]FetchPartition{}, consumerSent: map[PartitionID]FetchPartition{},
		consumerReceived: map[PartitionID]sentOffsets{},
		consumerWants:    map[PartitionID]FetchPartition{},
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
		topics[i] = copyOf(topic)
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

// step performs one random event.
func (m *sessionModel) step() {
	topic, partitionID := m.pick()
	log := m.store.Log(partitionID)
	switch m.random.IntN(12) {
	case 0, 1, 2:
		m.set.Append(1, []ProducePartition{{ID: partitionID, Batch: batch(m.t, "a record")}})
	case 3, 4, 5: // The follower has all records, or begins to fetch the partition.
		p := topic.Partitions[partitionID.Index]
		m.wants[partitionID] = FetchPartition{
			ID: partitionID, Topic: topic.ID, Offset: log.LogEnd(), DurableEnd: log.LogEnd(),
			HighWater: log.HighWatermark(), LogStart: log.LogStart(),
			LeaderEpoch: p.LeaderEpoch, LastEpoch: -1, BytesMax: 1 << 20,
			TombstoneClean: int64(m.random.IntN(2)),
		}
	case 6: // The follower lacks a record.
		if want, ok := m.wants[partitionID]; ok {
			want.Offset = max(want.LogStart, want.Offset-1)
			want.DurableEnd = want.Offset
			m.wants[partitionID] = want
		}
	case 7:
		delete(m.wants, partitionID)
		delete(m.consumerWants, partitionID)
	case 8, 9:
		m.consumerWants[partitionID] = FetchPartition{
			ID: partitionID, Topic: topic.ID,
			Offset:      log.LogStart() + m.random.Int64N(log.LogEnd()-log.LogStart()+1),
			LeaderEpoch: -1, LastEpoch: -1, BytesMax: 1 << 20,
		}
	case 10:
		p := *topic.Partitions[partitionID.Index]
		p.LeaderEpoch++
		p.Leader = []int32{self, 2}[m.random.IntN(2)]
		topic.Partitions[partitionID.Index] = &p
		m.apply()
	default:
		if hw := log.HighWatermark(); hw > log.LogStart() {
			if err := log.DeleteBefore(hw); err != nil {
				m.t.Fatal(err)
			}
		}
	}
}

// sessionFailure is a failure that affects one fetch.
type sessionFailure int

const (
	noFailure sessionFailure = iota
	requestLost
	responseLost
	sessionsClosed
	requestRepeated
)

func (m *sessionModel) failure() sessionFailure {
	if n := m.random.IntN(20); n < 4 {
		return sessionFailure(n + 1)
	}
	return noFailure
}

// closeSessions closes all sessions, as after evictions or a restart of the leader.
func (m *sessionModel) closeSessions() {
	for _, in := range m.set.sessions.cache.all() {
		m.set.sessions.close(in)
	}
	if n := len(m.set.sessions.watch.partitions); n != 0 {
		m.t.Fatalf("%d partitions are watched for closed sessions", n)
	}
}

// followerFetch sends one fetch of the follower, built in the same way as a fetcher's. It compares
// the results with the results of a fetch without a session.
func (m *sessionModel) followerFetch() {
	if m.follower.Full() {
		m.follower.Reset()
	}
	for key, sent := range m.follower.All() {
		if _, wanted := m.wants[sent.ID]; !wanted {
			m.follower.Remove(key)
		}
	}
	req := FetchRequest{BytesMin: 1, BytesMax: 1 << 30, Replica: &m.replica}
	for _, want := range sortedWants(m.wants) {
		p := FollowerPartition{
			ID: want.ID, Topic: want.Topic, LeaderEpoch: want.LeaderEpoch, Offset: want.Offset,
			LastEpoch: want.LastEpoch, HighWater: want.HighWater,
			DurableEnd: want.DurableEnd, LogStart: want.LogStart,
			TombstoneClean: want.TombstoneClean, BytesMax: want.BytesMax,
		}
		if m.follower.Update(session.KeyOf(p.Topic, p.ID.Topic, p.ID.Index), p) {
			req.Partitions = append(req.Partitions, want)
		}
	}
	req.Session, req.Forgotten = m.follower.ID(), m.follower.Forgotten()
	whole := FetchRequest{BytesMin: 1, BytesMax: 1 << 30, Replica: &m.replica,
		Partitions: sortedWants(m.wants)}
	failure := m.failure()
	switch failure {
	case requestLost:
		m.follower.Failed()
		return
	case sessionsClosed:
		m.closeSessions()
	}
	got, err := m.set.FetchInSession(m.t.Context(), req)
	if failure == requestRepeated && err == nil && !m.follower.Full() {
		releaseResults(got.Results)
		if got, err = m.set.FetchInSession(m.t.Context(), req); err == nil {
			m.t.Fatal("a repeated fetch was accepted as the next one")
		}
	}
	defer releaseResults(got.Results)
	if err != nil || failure == responseLost {
		m.follower.Failed()
		return
	}
	m.follower.Succeeded(got.Session)
	want := m.set.Fetch(m.t.Context(), whole)
	defer releaseResults(want)
	m.compare("follower", got.Results,
		slices.DeleteFunc(slices.Clone(want), func(r FetchResult) bool { return !r.MustRespond() }))
	m.reported += len(got.Results)
	m.omitted += len(want) - len(got.Results)
}

func sortedWants(wants map[PartitionID]FetchPartition) []FetchPartition {
	return slices.SortedFunc(maps.Values(wants),
		func(a, b FetchPartition) int { return comparePartitions(a.ID, b.ID) })
}

// compare fails unless both results contain the same partitions and offsets.
func (m *sessionModel) compare(client string, got, want []FetchResult) {
	m.t.Helper()
	short := func(results []FetchResult) map[PartitionID]string {
		all := map[PartitionID]string{}
		for _, r := range results {
			bytes := 0
			if r.Data != nil {
				bytes = r.Data.Length
			}
			all[r.ID] = fmt.Sprintf(
				"error %v, %d bytes, start %d, high watermark %d, diverging %v, cleaning progress %d",
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
		m.t.Errorf("the %s received\n%v\nwant\n%v", client, a, b)
	}
}

// consumerFetch sends one fetch of the consumer, which names the partitions whose request has
// changed. It compares the results with the results of a fetch without a session.
func (m *sessionModel) consumerFetch() {
	req := FetchRequest{BytesMin: 1, BytesMax: 1 << 30, Session: m.consumer}
	if m.consumer.Epoch == session.New {
		clear(m.consumerSent)
		clear(m.consumerReceived)
	}
	for partitionID, sent := range m.consumerSent {
		if _, wanted := m.consumerWants[partitionID]; !wanted {
			req.Forgotten = append(req.Forgotten, session.KeyOf(sent.Topic, partitionID.Topic,
				partitionID.Index))
			delete(m.consumerSent, partitionID)
			delete(m.consumerReceived, partitionID)
		}
	}
	for _, want := range sortedWants(m.consumerWants) {
		if m.consumerSent[want.ID] != want {
			req.Partitions = append(req.Partitions, want)
			m.consumerSent[want.ID] = want
		}
	}
	failure := m.failure()
	switch failure {
	case requestLost:
		m.consumer.Epoch = session.New
		return
	case sessionsClosed:
		m.closeSessions()
	}
	got, err := m.set.FetchInSession(m.t.Context(), req)
	defer releaseResults(got.Results)
	if err != nil || failure == responseLost {
		m.consumer.Epoch = session.New
		return
	}
	first := m.consumer.Epoch == session.New
	m.consumer = session.ID{ID: got.Session, Epoch: m.consumer.Epoch}.Next()
	want := m.set.Fetch(m.t.Context(),
		FetchRequest{BytesMin: 1, BytesMax: 1 << 30, Partitions: sortedWants(m.consumerWants)})
	defer releaseResults(want)
	var changed []FetchResult
	for _, r := range want {
		now := sentOffsets{r.HighWater, r.LogStart}
		before, known := m.consumerReceived[r.ID]
		if first || r.MustRespond() || !known || before != now {
			changed = append(changed, r)
		}
		if m.consumerReceived[r.ID] = now; r.Err != nil {
			delete(m.consumerReceived, r.ID)
		}
	}
	m.compare("consumer", got.Results, changed)
}

// TestSessionsMatchFetchesWithoutSession runs sessionModel with random failures.
func TestSessionsMatchFetchesWithoutSession(t *testing.T) {
	for s := range seed.Sequence(t, 60) {
		synctest.Test(t, func(t *testing.T) {
			m := newSessionModel(t, rand.New(rand.NewPCG(s, 0)))
			defer m.close()
			for range 150 {
				for range 1 + m.random.IntN(3) {
					m.step()
				}
				// Wait until the next fetch scans for changes that cause no event.
				time.Sleep(sessionScanInterval)
				if m.random.IntN(2) == 0 {
					m.followerFetch()
				} else {
					m.consumerFetch()
				}
				if t.Failed() {
					return
				}
			}
			if m.reported == 0 || m.omitted == 0 {
				t.Errorf("%d partitions reported, %d omitted: the run tests nothing", m.reported,
					m.omitted)
			}
		})
	}
}

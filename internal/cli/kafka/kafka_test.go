package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"heartwood.dev/heartwood/internal/kafkaclient"
	"heartwood.dev/heartwood/test/kit/devcluster"
)

const manifests = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: main}
spec: {brokers: 3}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: tickets}
spec: {cluster: main, partitions: 3, replicas: 3, cleanupPolicy: Compact}
`

// unroutable returns client options for a client that cannot reach advertised addresses: the names
// of pods do not resolve, and all connections use Dial, as with forwarded ports.
func unroutable(c *devcluster.Cluster) kafkaclient.Options {
	o := kafkaclient.Options{Addresses: map[int32]string{}}
	for id := range c.Bootstrap {
		o.Addresses[int32(id)] = fmt.Sprintf("main-broker-%d.main-brokers.logs.svc:9092", id)
	}
	o.Dial = func(ctx context.Context, broker int32) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "tcp", c.Bootstrap[broker])
	}
	return o
}

// read returns the records as sorted strings partition/key=value.
func read(t *testing.T, o kafkaclient.Options, tail Tail) []string {
	t.Helper()
	var got []string
	err := Read(t.Context(), o, tail, func(r Record) error {
		value := "null"
		if r.Value != nil {
			value = string(*r.Value)
		}
		got = append(got, fmt.Sprintf("%s=%s", *r.Key, value))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	return got
}

func TestRecordsAreWrittenAndRead(t *testing.T) {
	c := devcluster.Start(t, 3, manifests)
	o := unroutable(c)
	lines := "T-1:printer on fire\nT-2:no coffee\nT-1:fire: out\nT-3:\n"
	n, err := Write(t.Context(), o, Produce{Topic: "tickets", Partition: -1, Separator: ":",
		Tombstones: true}, strings.NewReader(lines))
	if err != nil || n != 4 {
		t.Fatalf("wrote %d records, error %v, want 4", n, err)
	}
	all := Tail{Topic: "tickets", FromStart: true}
	want := []string{"T-1=fire: out", "T-1=printer on fire", "T-2=no coffee", "T-3=null"}
	if got := read(t, o, all); !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
	all.Committed = true
	if got := read(t, o, all); !slices.Equal(got, want) {
		t.Errorf("committed: read %q, want %q", got, want)
	}
	t.Run("errors", func(t *testing.T) { testErrors(t, o) })
	t.Run("follow", func(t *testing.T) { testFollow(t, o) })
	t.Run("last", func(t *testing.T) { testLast(t, o) })
	t.Run("groups", func(t *testing.T) { testGroups(t, o) })
}

// TestOneBrokerIsDown checks that the commands work while a broker does not respond, in whatever
// order clients try the brokers. In some attempts, that broker is the first one.
func TestOneBrokerIsDown(t *testing.T) {
	c := devcluster.Start(t, 3, strings.Replace(manifests, "partitions: 3, replicas: 3",
		"partitions: 1, replicas: 1", 1))
	up := unroutable(c)
	leader := leaderOf(t, up)
	for name, failure := range map[string]error{
		"pod is gone":     &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("pods not found")},
		"no process runs": &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED},
	} {
		t.Run(name, func(t *testing.T) {
			down, o := (leader+1)%3, up
			tried := 0
			o.Dial = func(ctx context.Context, broker int32) (net.Conn, error) {
				if broker == down {
					tried++
					return nil, failure
				}
				return up.Dial(ctx, broker)
			}
			for range 8 {
				n, err := Write(t.Context(), o, Produce{Topic: "tickets", Partition: -1,
					Separator: ":"}, strings.NewReader("T-1:fire\n"))
				if err != nil || n != 1 {
					t.Fatalf("wrote %d records, error %v", n, err)
				}
				if got := read(t, o, Tail{Topic: "tickets", FromStart: true}); len(got) == 0 {
					t.Fatal("read no record")
				}
				if _, missing, err := Groups(t.Context(), o, nil); err != nil {
					t.Fatal(err)
				} else if missing == nil {
					t.Error("the broker that is down is not reported")
				}
			}
			if tried == 0 {
				t.Error("no attempt has met the broker that is down")
			}
			tried = 0
			o.Seeds = []int32{leader}
			seeds, _ := kafkaclient.Reach(o)
			if !slices.Equal(seeds, []string{up.Addresses[leader]}) {
				t.Errorf("seeds %v", seeds)
			}
		})
	}
}

// leaderOf returns the leader of partition 0 of topic tickets.
func leaderOf(t *testing.T, o kafkaclient.Options) int32 {
	t.Helper()
	client, err := kafkaclient.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(t.Context(), "tickets")
	if err != nil {
		t.Fatal(err)
	}
	return topics["tickets"].Partitions[0].Leader
}

func testErrors(t *testing.T, o kafkaclient.Options) {
	for want, tail := range map[string]Tail{
		"UNKNOWN_TOPIC_OR_PARTITION": {Topic: "absent"},
		"has no partition 7":         {Topic: "tickets", Partitions: []int32{0, 7}},
	} {
		err := Read(t.Context(), o, tail, func(Record) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", tail, err, want)
		}
	}
	n, err := Write(t.Context(), o, Produce{Topic: "tickets", Partition: 0, Separator: "="},
		strings.NewReader("a=1\nbroken\n"))
	if n != 1 {
		t.Errorf("a line without a key: %d records, want those before it", n)
	}
	if err == nil || !strings.Contains(err.Error(), `line 2: no separator "="`) {
		t.Errorf("a line without a key: error %v", err)
	}
	// A compacted topic rejects records without keys.
	if n, err := Write(t.Context(), o, Produce{Topic: "tickets", Partition: -1},
		strings.NewReader("x\n")); n != 0 || err == nil {
		t.Errorf("a record without a key: %d records, error %v", n, err)
	}
}

// testFollow reads the record of testErrors, and then a record that is written while Read follows.
func testFollow(t *testing.T, o kafkaclient.Options) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	err := Read(ctx, o, Tail{Topic: "tickets", Partitions: []int32{0}, Last: 1, Follow: true},
		func(r Record) error {
			got = append(got, string(*r.Value))
			if len(got) == 2 {
				cancel()
				return nil
			}
			_, err := Write(ctx, o, Produce{Topic: "tickets", Partition: 0, Separator: "="},
				strings.NewReader("a=2\n"))
			return err
		})
	if err != nil || !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("followed %q, error %v", got, err)
	}
	stop := errors.New("enough")
	err = Read(t.Context(), o, Tail{Topic: "tickets", FromStart: true},
		func(Record) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("the error of the function: %v", err)
	}
}

func testLast(t *testing.T, o kafkaclient.Options) {
	tail := Tail{Topic: "tickets", Partitions: []int32{0}, Last: 2}
	if got := read(t, o, tail); !slices.Equal(got, []string{"a=1", "a=2"}) {
		t.Errorf("the last two offsets: %q", got)
	}
	tail.Last = 0
	if got := read(t, o, tail); len(got) != 0 {
		t.Errorf("no offset: %q", got)
	}
}

func testGroups(t *testing.T, o kafkaclient.Options) {
	ctx := t.Context()
	if groups, _, err := Groups(ctx, o, nil); err != nil || len(groups) != 0 {
		t.Fatalf("before any group: %+v, error %v", groups, err)
	}
	if err := Commit(ctx, o, "billing", []Change{{Topic: "tickets", Partition: 0, To: 1}}); err != nil {
		t.Fatal(err)
	}
	groups, _, err := Groups(ctx, o, nil)
	if err != nil || len(groups) != 1 {
		t.Fatalf("groups %+v, error %v", groups, err)
	}
	group := groups[0]
	if group.Group != "billing" || group.Members != 0 {
		t.Errorf("group %+v, want billing without members", group)
	}
	if len(group.Partitions) != 3 {
		t.Fatalf("partitions %+v, want all three", group.Partitions)
	}
	first := group.Partitions[0]
	end := first.End
	if first.Committed != 1 || first.Lag != end-1 {
		t.Errorf("partition %+v, want offset 1 and the lag to the end", first)
	}
	if group.Lag <= 1 {
		t.Errorf("lag %d, want that of all partitions", group.Lag)
	}
	for _, c := range []struct {
		reset Reset
		want  int64
	}{
		{Reset{To: kafkaclient.Earliest}, 0}, {Reset{To: kafkaclient.Latest}, end},
		{Reset{To: kafkaclient.AtOffset, Offset: 2}, 2},
		{Reset{To: kafkaclient.AtOffset, Offset: 1 << 40}, end},
		{Reset{To: kafkaclient.AtTime, Millis: 1}, 0},
	} {
		c.reset.Group = "billing"
		changes, err := PlanReset(ctx, o, c.reset)
		if err != nil || len(changes) != 3 {
			t.Errorf("%+v: changes %+v, error %v", c.reset, changes, err)
			continue
		}
		if changes[0].To != c.want {
			t.Errorf("%+v: offset %d, want %d", c.reset, changes[0].To, c.want)
		}
		if changes[0].From != 1 || changes[1].From != -1 {
			t.Errorf("%+v: %+v, want the committed offsets 1 and none", c.reset, changes)
		}
	}
	if _, err := PlanReset(ctx, o, Reset{Group: "none"}); err == nil {
		t.Error("a group without offsets can be reset without a topic")
	}
	t.Run("classic members", func(t *testing.T) { testMembers(t, o, "live") })
	t.Run("consumer members", func(t *testing.T) {
		testMembers(t, o, "modern", kgo.ServerSideBalancer())
	})
	testBothProtocols(t, o)
}

// testMembers checks that a group with members is shown with its members and cannot be reset, and
// that a group without members can be reset.
func testMembers(t *testing.T, o kafkaclient.Options, group string, opts ...kgo.Opt) {
	client, err := kafkaclient.Connect(t.Context(), o, append(opts, kgo.ConsumerGroup(group),
		kgo.ConsumeTopics("tickets"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.PollFetches(t.Context())
	if err := client.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = PlanReset(t.Context(), o, Reset{Group: group, To: kafkaclient.Earliest})
	if err == nil || !strings.Contains(err.Error(), "has 1 members: stop them first") {
		t.Errorf("reset of a group with a member: %v", err)
	}
	groups, _, err := Groups(t.Context(), o, []string{group})
	if err != nil || groups[0].Error != "" {
		t.Fatalf("groups %+v, error %v", groups, err)
	}
	if groups[0].Members != 1 || groups[0].State != "Stable" {
		t.Errorf("group %+v, want one member", groups[0])
	}
	if len(groups[0].Partitions) != 3 || groups[0].Lag < 0 {
		t.Errorf("group %+v, want the lag of all partitions", groups[0])
	}
	committed := 0
	for _, p := range groups[0].Partitions {
		if p.Member != "kubectl-heartwood" || p.Host == "" {
			t.Errorf("partition %+v, want its member", p)
		}
		if p.Committed >= 0 {
			committed++
		}
	}
	if committed == 0 {
		t.Errorf("no committed offset: %+v", groups[0])
	}
	client.Close()
	changes, err := PlanReset(t.Context(), o, Reset{Group: group, To: kafkaclient.Earliest})
	if err == nil {
		err = Commit(t.Context(), o, group, changes)
	}
	if err != nil {
		t.Errorf("reset of a group without members: %v", err)
	}
}

// testBothProtocols checks that groups of both protocols are shown together, sorted by name.
func testBothProtocols(t *testing.T, o kafkaclient.Options) {
	groups, _, err := Groups(t.Context(), o, nil)
	var names []string
	for _, g := range groups {
		names = append(names, g.Group)
		if g.State != "Empty" || g.Members != 0 {
			t.Errorf("group %+v, want no members", g)
		}
		if g.Error != "" || g.Lag < 0 {
			t.Errorf("group %+v, want its lag", g)
		}
		if len(g.Partitions) != 3 || g.Partitions[0].Committed < 0 {
			t.Errorf("group %+v, want the committed offsets of three partitions", g)
		}
	}
	if err != nil || !slices.Equal(names, []string{"billing", "live", "modern"}) {
		t.Errorf("groups %q, error %v", names, err)
	}
}

const secured = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: main}
spec:
  brokers: 1
  listeners: [{name: tls, port: 9093, tls: {}, authentication: [{type: ScramSha512}]}]
---
apiVersion: heartwood.dev/v1alpha1
kind: LogUser
metadata: {name: app}
spec:
  cluster: main
  authentication: {type: Scram}
  acls: [{resource: {type: Topic, name: "*"}, operations: [All]}]
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: events}
spec: {cluster: main, partitions: 1, replicas: 1, cleanupPolicy: Delete}
`

func TestSecuredListener(t *testing.T) {
	c := devcluster.Start(t, 0, secured)
	files := filepath.Join(c.DataDir, "users", "app")
	file := func(name string) []byte {
		content, err := os.ReadFile(filepath.Join(files, name))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	o := unroutable(c)
	o.Addresses[0] = "localhost:9093" // a name that the certificate contains
	o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	o.TLS.RootCAs.AppendCertsFromPEM(file("ca.crt"))
	o.SASL = scram.Auth{User: "app", Pass: string(file("password"))}.AsSha512Mechanism()
	if n, err := Write(t.Context(), o, Produce{Topic: "events", Partition: -1},
		strings.NewReader("one\n")); n != 1 || err != nil {
		t.Fatalf("wrote %d records, error %v", n, err)
	}
	o.SASL = scram.Auth{User: "app", Pass: "wrong"}.AsSha512Mechanism()
	if _, err := kafkaclient.Connect(t.Context(), o); err == nil {
		t.Error("connected with a wrong password")
	}
	o.TLS.RootCAs = x509.NewCertPool()
	if _, err := kafkaclient.Connect(t.Context(), o); err == nil ||
		!strings.Contains(err.Error(), "connect to broker 0 with TLS") {
		t.Errorf("connected without the CA: %v", err)
	}
}

func TestTextIsJSON(t *testing.T) {
	record := Record{Key: text([]byte("ключ")), Value: text([]byte{0xff, 0})}
	got, err := json.Marshal(record)
	if err != nil || !strings.Contains(string(got), `"key":{"text":"ключ"},"value":{"base64":"/wA="}`) {
		t.Errorf("%s, error %v", got, err)
	}
}

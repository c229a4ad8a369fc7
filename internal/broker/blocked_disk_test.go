package broker

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/await"
)

// block blocks all operations of fault that change files, until release is called.
func block(t *testing.T, fault *vfs.Fault) (release func()) {
	t.Helper()
	until := make(chan struct{})
	for _, op := range []vfs.Op{vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpSyncDir, vfs.OpRename,
		vfs.OpRemove, vfs.OpRemoveAll, vfs.OpMkdir} {
		fault.Inject(vfs.Rule{Op: op, Until: until})
	}
	released := false
	release = func() {
		if !released {
			released = true
			close(until)
		}
	}
	t.Cleanup(release) // release runs before the broker is stopped
	return release
}

// listed returns the names of all topics in the broker's response to a new Metadata request.
func listed(t *testing.T, client *kgo.Client) (names []string) {
	t.Helper()
	response, err := client.Broker(0).Request(t.Context(), kmsg.NewPtrMetadataRequest())
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range response.(*kmsg.MetadataResponse).Topics {
		names = append(names, *topic.Topic)
	}
	return names
}

// TestDeleteTopicsDoesNotWaitForTheLogs checks that DeleteTopics responds while the disk that holds
// the logs blocks, and that later requests treat the topic as deleted. A second topic can be
// deleted while the broker still waits for the disk. Once the disk works again, the broker deletes
// the logs of both topics.
func TestDeleteTopicsDoesNotWaitForTheLogs(t *testing.T) {
	c := newCluster(t) // the metadata file is on another disk
	fault := vfs.NewFault(vfs.OS{})
	c.fsys = fault
	c.start()
	client := c.client()
	admin := kadm.NewClient(client)
	for _, topic := range []string{"first", "second"} {
		if _, err := admin.CreateTopic(t.Context(), 3, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic,
			Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	release := block(t, fault)
	for _, topic := range []string{"first", "second"} {
		if _, err := admin.DeleteTopic(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		// Regression: DeleteTopics used to respond after 5 s while the topic was still listed.
		if topics := listed(t, client); slices.Contains(topics, topic) {
			t.Fatalf("after the deletion of %s: topics %v", topic, topics)
		}
	}
	release()
	await.Until(t, "the deletion of the logs", func() bool {
		entries, err := os.ReadDir(c.options().DataDir)
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
			return strings.HasPrefix(e.Name(), "first-") || strings.HasPrefix(e.Name(), "second-")
		})
	})
}

// TestDeleteTopicsEndsWithItsTimeout checks that DeleteTopics responds with REQUEST_TIMED_OUT after
// the request's timeout, as in Kafka, while the disk that holds the metadata file blocks. The topic
// is deleted once the disk works again.
func TestDeleteTopicsEndsWithItsTimeout(t *testing.T) {
	fault := vfs.NewFault(vfs.OS{})
	c := &cluster{t: t, dir: t.TempDir(), fsys: fault}
	c.open()
	c.fsys = vfs.OS{} // the broker's file system
	c.start()
	client := c.client()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, "made"); err != nil {
		t.Fatal(err)
	}
	release := block(t, fault)
	request := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = kmsg.StringPtr("made")
	request.Topics, request.TopicNames = append(request.Topics, topic), []string{"made"}
	request.TimeoutMillis = 50
	response, err := request.RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if code := response.Topics[0].ErrorCode; code != kerr.RequestTimedOut.Code {
		t.Errorf("error code %d, want REQUEST_TIMED_OUT", code)
	}
	release()
	await.Until(t, "the deletion of the topic", func() bool {
		return !slices.Contains(listed(t, client), "made")
	})
	c.metadata.Close()
}

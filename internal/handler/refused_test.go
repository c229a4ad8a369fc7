package handler

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// lists reports whether the response to ApiVersions lists an API.
func (b *broker) lists(key int16) bool {
	b.t.Helper()
	got := ask[*kmsg.ApiVersionsResponse](b, 0, kmsg.NewPtrApiVersionsRequest())
	return slices.ContainsFunc(got.ApiKeys,
		func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == key })
}

// codesIn returns all error codes in a response.
func codesIn(v reflect.Value) (codes []int16) {
	switch v.Kind() {
	case reflect.Pointer:
		return codesIn(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			codes = append(codes, codesIn(v.Index(i))...)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[kmsg.Tags]() {
			return nil
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "ErrorCode" {
				codes = append(codes, int16(v.Field(i).Int()))
			}
			codes = append(codes, codesIn(v.Field(i))...)
		}
	}
	return codes
}

// refusals returns a request with one or two items for each refused API whose response has an error
// per item. Requests for the other refused APIs need no items.
func refusals() map[int16]kmsg.Request {
	scram := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	scram.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "a"}}
	scram.Upsertions = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{{Name: "a"}, {Name: "b"}}
	share, streams := kmsg.NewPtrShareGroupDescribeRequest(),
		kmsg.NewPtrStreamsGroupDescribeRequest()
	share.GroupIDs, streams.Groups = []string{"a", "b"}, []string{"a", "b"}
	offsets := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	offsets.Groups = make([]kmsg.DescribeShareGroupOffsetsRequestGroup, 2)
	create, remove := kmsg.NewPtrCreateACLsRequest(), kmsg.NewPtrDeleteACLsRequest()
	create.Creations = make([]kmsg.CreateACLsRequestCreation, 2)
	remove.Filters = make([]kmsg.DeleteACLsRequestFilter, 2)
	requests := map[int16]kmsg.Request{}
	for _, request := range []kmsg.Request{scram,
		share, streams, offsets, create, remove} {
		requests[request.Key()] = request
	}
	return requests
}

// TestRefusedAPIs sends a request for each refused API in each version. The response must have the
// version's format and contain the error, for each item in the request if it has items.
func TestRefusedAPIs(t *testing.T) {
	b := newBroker(t)
	other := map[int16]int16{17: 34, 36: 34, api.KeyDescribeACLs: 54,
		api.KeyCreateACLs: 54, api.KeyDeleteACLs: 54, api.KeyCreateToken: 64, api.KeyRenewToken: 64,
		api.KeyExpireToken: 64, api.KeyDescribeToken: 64}
	requests := refusals()
	rows := slices.Concat(refused, table)
	rows = slices.DeleteFunc(rows,
		func(row row) bool { return b.lists(row.key) && other[row.key] == 0 })
	for _, row := range rows {
		for version := row.min; version <= row.max; version++ {
			want, items := int16(35), 1
			if other[row.key] != 0 {
				want = other[row.key]
			}
			request := kmsg.RequestForKey(row.key)
			if with := requests[row.key]; with != nil {
				request, items = with, 2
			}
			response := ask[kmsg.Response](b, version, request)
			codes := codesIn(reflect.ValueOf(response))
			if row.key == 24 && version < 4 {
				codes = codes[1:] // the error of the whole request, which these versions do not have
			} else if row.key == 24 {
				items = 1
			}
			if len(codes) < items || slices.ContainsFunc(codes,
				func(code int16) bool { return code != want }) {
				t.Errorf("%s version %d: error codes %v, want %d of %d", row.name, version, codes,
					items, want)
			}
			if ignoresBody[row.key] {
				raw := &wire.Request{Key: row.key, Version: version, Body: []byte{0xff}}
				if _, err := b.Handle(t.Context(), raw); err != nil {
					t.Errorf("%s version %d decodes the body: %v", row.name, version, err)
				}
			}
		}
	}
}

// TestRefusedAPIsAreNotServed checks that implemented APIs have been removed from refused.
func TestRefusedAPIsAreNotServed(t *testing.T) {
	served := func(key int16) func(row) bool { return func(a row) bool { return a.key == key } }
	for _, row := range refused {
		if slices.ContainsFunc(table, served(row.key)) {
			t.Errorf("%s is in table and in refused", row.name)
		}
		if newBroker(t).lists(row.key) {
			t.Errorf("ApiVersions lists %s, which is refused", row.name)
		}
	}
}

// TestRefusedRequestsDoNotEndTheConnection pipelines a request for an API that ApiVersions does not
// list with other requests, as clients do that assume the versions. The broker must respond to all
// requests in order.
func TestRefusedRequestsDoNotEndTheConnection(t *testing.T) {
	b, path := socketBroker(t)
	b.mustProduce("tickets", "a")
	conn, err := net.Dial("unix", path)
	must(t, err)
	defer conn.Close()
	fetch, quorum, metadata := fetchRequestFor("tickets", 1), kmsg.NewPtrDescribeQuorumRequest(),
		allTopics(1)
	fetch.MaxWaitMillis, fetch.MinBytes = 200, 1 // waits, because there is no record at offset 1
	fetch.SetVersion(11)
	quorum.SetVersion(2)
	metadata.SetVersion(1)
	requests := []kmsg.Request{fetch, quorum, metadata}
	var sent []byte
	for i, request := range requests {
		frame := framed(b, request)
		binary.BigEndian.PutUint32(frame[8:], uint32(i))
		sent = append(sent, frame...)
	}
	_, err = conn.Write(sent)
	must(t, err)
	for i, request := range requests {
		var size [4]byte
		_, err := io.ReadFull(conn, size[:])
		must(t, err)
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		_, err = io.ReadFull(conn, frame)
		must(t, err)
		if got := binary.BigEndian.Uint32(frame); got != uint32(i) {
			t.Fatalf("response to request %d, want %d", got, i)
		}
		response := request.ResponseKind()
		if frame = frame[4:]; response.IsFlexible() {
			frame = frame[1:] // the tags of the header
		}
		must(t, response.ReadFrom(frame))
		if answer, ok := response.(*kmsg.DescribeQuorumResponse); ok &&
			(answer.ErrorCode != 35 || textOf(answer.ErrorMessage) != errNoQuorum.Error()) {
			t.Errorf("quorum: %+v", answer)
		}
	}
}

// TestAlterReplicaLogDirs checks that the responses are those of a Kafka broker with one entry in
// log.dirs.
func TestAlterReplicaLogDirs(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	b.mustProduce("tickets", "a")
	for version := int16(1); version <= 2; version++ {
		for _, c := range []struct {
			dir, topic string
			want       int16
		}{
			{"/data", "tickets", 0}, {"/data/", "tickets", 0}, {"/other", "tickets", 57},
			{"data", "tickets", 57}, {"/data", "missing", 9},
		} {
			req := kmsg.NewPtrAlterReplicaLogDirsRequest()
			req.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: c.dir,
				Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: c.topic,
					Partitions: []int32{0}}}}}
			topics := ask[*kmsg.AlterReplicaLogDirsResponse](b, version, req).Topics
			if len(topics) != 1 || topics[0].Topic != c.topic ||
				topics[0].Partitions[0].ErrorCode != c.want {
				t.Errorf("%s to %s: %+v, want error %d", c.topic, c.dir, topics, c.want)
			}
		}
	}
}

// TestUpdateFeatures checks that a request may set a feature only to its current level.
func TestUpdateFeatures(t *testing.T) {
	b := newBroker(t)
	for version := range int16(3) {
		for name, c := range map[string]struct {
			feature string
			level   int16
			kind    int8
			want    int16
			text    string
		}{
			"same level":   {"group.version", 1, 1, 0, ""},
			"safe":         {"group.version", 1, 2, 0, ""},
			"higher level": {"group.version", 2, 1, 95, "supports only version 1"},
			"disabled":     {"group.version", 0, 3, 95, "supports only version 1"},
			"by brokers":   {"transaction.version", 0, 2, 0, ""},
			"raised":       {"transaction.version", 2, 1, 95, "which is 0"},
			"unknown":      {"share.version", 1, 1, 95, "does not have this feature"},
		} {
			req := kmsg.NewPtrUpdateFeaturesRequest()
			req.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: c.feature,
				MaxVersionLevel: c.level, UpgradeType: c.kind}}
			got := ask[*kmsg.UpdateFeaturesResponse](b, version, req)
			if got.ErrorCode != c.want ||
				!strings.Contains(textOf(got.ErrorMessage), c.text) {
				t.Errorf("%s, version %d: %+v, want error %d", name, version, got, c.want)
			}
			if results := len(got.Results); c.want == 0 && version < 2 && results != 1 {
				t.Errorf("%s, version %d: %d results, want 1", name, version, results)
			}
		}
	}
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: groupFeature,
		MaxVersionLevel: 1, UpgradeType: 9}}
	if got := ask[*kmsg.UpdateFeaturesResponse](b, 2, req); got.ErrorCode != 95 {
		t.Errorf("upgrade type 9: %+v, want error 95", got)
	}
}

// TestProtocolPageShowsTheRefusedAPIs checks that docs/internals/protocol.md contains the refused
// APIs and the errors in their responses, between two markers. With UPDATE=1 it writes them there.
func TestProtocolPageShowsTheRefusedAPIs(t *testing.T) {
	const page, begin, end = "../../docs/internals/protocol.md", "<!-- refused -->\n", "<!-- /refused -->"
	text, err := os.ReadFile(page)
	must(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatal("docs/internals/protocol.md has no markers of refused APIs")
	}
	b, requests := newBroker(t), refusals()
	var want strings.Builder
	want.WriteString("| key | API | versions | error |\n|---|---|---|---|\n")
	for _, row := range refused {
		request := requests[row.key]
		if request == nil {
			request = kmsg.RequestForKey(row.key)
		}
		request.SetVersion(row.min)
		answer, err := b.Handle(t.Context(), &wire.Request{Key: row.key, Version: row.min,
			Body: request.AppendTo(nil)})
		must(t, err)
		fmt.Fprintf(&want, "| %d | %s | %d-%d | `%s` |\n", row.key, row.name, row.min, row.max,
			answer.Error)
	}
	whole := before + begin + want.String() + end + after
	if os.Getenv("UPDATE") != "" {
		must(t, os.WriteFile(page, []byte(whole), 0o600))
	} else if whole != string(text) {
		t.Error("docs/internals/protocol.md differs from refused.go; run this test with UPDATE=1")
	}
}

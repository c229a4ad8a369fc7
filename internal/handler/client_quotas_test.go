package handler

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func alterQuotas(user string,
	ops ...kmsg.AlterClientQuotasRequestEntryOp) *kmsg.AlterClientQuotasRequest {
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Entries = []kmsg.AlterClientQuotasRequestEntry{{
		Entity: []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: &user}}, Ops: ops}}
	return req
}

func setQuota(key string, value float64) kmsg.AlterClientQuotasRequestEntryOp {
	return kmsg.AlterClientQuotasRequestEntryOp{Key: key, Value: value}
}

// alterError sends a request with one entry, and returns the error for that entry.
func (b *broker) alterError(req *kmsg.AlterClientQuotasRequest) (int16, string) {
	b.t.Helper()
	response := ask[*kmsg.AlterClientQuotasResponse](b, 1, req)
	return response.Entries[0].ErrorCode, textOf(response.Entries[0].ErrorMessage)
}

// describedQuotas returns the entries that a filter selects, as text.
func (b *broker) describedQuotas(strict bool,
	components ...kmsg.DescribeClientQuotasRequestComponent) (all []string) {
	b.t.Helper()
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	req.Components, req.Strict = components, strict
	response := ask[*kmsg.DescribeClientQuotasResponse](b, 1, req)
	if response.ErrorCode != 0 || response.Entries == nil {
		b.t.Fatalf("error %d, entries %v", response.ErrorCode, response.Entries)
	}
	for _, entry := range response.Entries {
		text := entry.Entity[0].Type + " <default>"
		if name := entry.Entity[0].Name; name != nil {
			text = entry.Entity[0].Type + " " + *name
		}
		for _, value := range entry.Values {
			text += fmt.Sprintf(" %s=%v", value.Key, value.Value)
		}
		all = append(all, text)
	}
	return all
}

func TestQuotasAreStoredInLogUsers(t *testing.T) {
	b, users := withUsers(t)
	for _, req := range []*kmsg.AlterClientQuotasRequest{
		alterQuotas("alice", setQuota("producer_byte_rate", 1<<20), setQuota("request_percentage", 50)),
		alterQuotas("CN=bob", setQuota("consumer_byte_rate", 1000),
			setQuota("controller_mutation_rate", 5)),
	} {
		if code, text := b.alterError(req); code != 0 {
			t.Fatalf("error %d: %s", code, text)
		}
	}
	all := alterQuotas("", setQuota("producer_byte_rate", 7))
	all.Entries[0].Entity[0].Name = nil
	if code, text := b.alterError(all); code != 0 {
		t.Fatalf("default: error %d: %s", code, text)
	}
	if got := users.users["alice"].Spec; got.Quotas.ProduceRate.String() != "1Mi" ||
		*got.Quotas.RequestPercent != 50 || got.Authentication.Type != v1alpha1.UserExternal {
		t.Errorf("LogUser %+v", got)
	}
	if got := users.users["CN=bob"].Spec; got.UserName != "CN=bob" ||
		got.Quotas.FetchRate.String() != "1k" || *got.Quotas.PartitionMutationRate != 5 {
		t.Errorf("LogUser %+v", got)
	}
	alice, bob := "user alice producer_byte_rate=1.048576e+06 request_percentage=50",
		"user CN=bob consumer_byte_rate=1000 controller_mutation_rate=5"
	everyone := "user <default> producer_byte_rate=7"
	name := "alice"
	exact := kmsg.DescribeClientQuotasRequestComponent{EntityType: "user", Match: &name}
	for i, c := range []struct {
		got, want []string
	}{
		{b.describedQuotas(false), []string{everyone, bob, alice}},
		{b.describedQuotas(true), nil},
		{b.describedQuotas(true, exact), []string{alice}},
		{b.describedQuotas(false, kmsg.DescribeClientQuotasRequestComponent{EntityType: "user",
			MatchType: 1}), []string{everyone}},
		{b.describedQuotas(true, kmsg.DescribeClientQuotasRequestComponent{EntityType: "user",
			MatchType: 2}), []string{everyone, bob, alice}},
		{b.describedQuotas(false, exact, kmsg.DescribeClientQuotasRequestComponent{
			EntityType: "client-id", MatchType: 2}), nil},
		{b.describedQuotas(false, kmsg.DescribeClientQuotasRequestComponent{EntityType: "ip",
			MatchType: 1}), nil},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("case %d: %q, want %q", i, c.got, c.want)
		}
	}
	remove := alterQuotas("alice", kmsg.AlterClientQuotasRequestEntryOp{
		Key: "producer_byte_rate", Remove: true}, kmsg.AlterClientQuotasRequestEntryOp{
		Key: "consumer_byte_rate", Remove: true})
	if code, _ := b.alterError(remove); code != 0 || users.users["alice"].Spec.Quotas == nil ||
		users.users["alice"].Spec.Quotas.ProduceRate != nil {
		t.Errorf("removal: error %d, %+v", code, users.users["alice"].Spec.Quotas)
	}
}

// TestInvalidQuotasAreRefused checks the error codes and texts for invalid quotas. They are the
// same as in Kafka if Kafka refuses them too.
func TestInvalidQuotasAreRefused(t *testing.T) {
	b, users := withUsers(t)
	for _, c := range []struct {
		op   kmsg.AlterClientQuotasRequestEntryOp
		text string
	}{
		{setQuota("producer_byte_rat", 1), "Invalid configuration key producer_byte_rat"},
		{setQuota("producer_byte_rate", 0), "Quota producer_byte_rate must be greater than 0"},
		{setQuota("producer_byte_rate", -1), "must be greater than 0"},
		{setQuota("producer_byte_rate", math.NaN()), "must be greater than 0"},
		{setQuota("producer_byte_rate", 0.5), "cannot be a fractional value"},
		{setQuota("consumer_byte_rate", math.Inf(1)), "too large"},
		{setQuota("consumer_byte_rate", 1<<63), "too large"},
		{setQuota("request_percentage", 12.5), "cannot be a fractional value"},
		{setQuota("request_percentage", 100_001), "at most 100000"},
		{setQuota("controller_mutation_rate", 1_000_001), "at most 1000000"},
	} {
		if code, text := b.alterError(alterQuotas("alice", c.op)); code != 42 ||
			!strings.Contains(text, c.text) {
			t.Errorf("%+v: error %d: %s", c.op, code, text)
		}
	}
	if code, text := b.alterError(alterQuotas("alice", setQuota("producer_byte_rate", 1),
		setQuota("producer_byte_rate", 2))); code != 42 || !strings.Contains(text, "Duplicate quota") {
		t.Errorf("repeated key: error %d: %s", code, text)
	}
	name, empty := "alice", ""
	for text, entity := range map[string][]kmsg.AlterClientQuotasRequestEntryEntity{
		"empty client quota entity":   {},
		"only":                        {{Type: "client-id", Name: &name}},
		"client ids":                  {{Type: "user", Name: &name}, {Type: "client-id", Name: &name}},
		"IP addresses":                {{Type: "ip"}},
		"Unhandled":                   {{Type: "rack", Name: &name}},
		"Empty user":                  {{Type: "user", Name: &empty}},
		"duplicate entity entry user": {{Type: "user", Name: &name}, {Type: "user", Name: &name}},
	} {
		req := kmsg.NewPtrAlterClientQuotasRequest()
		req.Entries = []kmsg.AlterClientQuotasRequestEntry{{Entity: entity,
			Ops: []kmsg.AlterClientQuotasRequestEntryOp{setQuota("producer_byte_rate", 1)}}}
		if code, got := b.alterError(req); code != 42 || text != "only" && !strings.Contains(got, text) {
			t.Errorf("%v: error %d: %s", entity, code, got)
		}
	}
	if code, text := b.alterError(alterQuotas("*", setQuota("producer_byte_rate", 1))); code != 42 {
		t.Errorf("user *: error %d: %s", code, text)
	}
	if len(users.users) != 0 {
		t.Errorf("a refused request has changed users: %v", users.users)
	}
}

// TestRepeatedEntityIsRefused checks that only the first of two entries for the same user is
// applied.
func TestRepeatedEntityIsRefused(t *testing.T) {
	b, users := withUsers(t)
	req := alterQuotas("alice", setQuota("producer_byte_rate", 1))
	req.Entries = append(req.Entries,
		alterQuotas("alice", setQuota("producer_byte_rate", 2)).Entries...)
	response := ask[*kmsg.AlterClientQuotasResponse](b, 1, req)
	if response.Entries[0].ErrorCode != 0 || response.Entries[1].ErrorCode != 42 ||
		users.users["alice"].Spec.Quotas.ProduceRate.Value() != 1 {
		t.Errorf("%+v", response.Entries)
	}
}

func TestValidationChangesNoQuota(t *testing.T) {
	b, users := withUsers(t)
	req := alterQuotas("alice", setQuota("producer_byte_rate", 1))
	req.ValidateOnly = true
	if code, _ := b.alterError(req); code != 0 || len(users.users) != 0 {
		t.Errorf("error %d, users %v", code, users.users)
	}
}

func TestReadOnlyRefusesQuotas(t *testing.T) {
	b, users := withUsers(t)
	image := *b.image.Load()
	image.Policy.ReadOnly = true
	b.image.Store(&image)
	if code, _ := b.alterError(alterQuotas("alice", setQuota("producer_byte_rate", 1))); code != 44 ||
		len(users.users) != 0 {
		t.Errorf("error %d", code)
	}
}

// TestInvalidQuotaFiltersAreRefused checks that the filters that Kafka refuses are refused here
// too.
func TestInvalidQuotaFiltersAreRefused(t *testing.T) {
	b, _ := withUsers(t)
	name := "alice"
	user := kmsg.DescribeClientQuotasRequestComponent{EntityType: "user", Match: &name}
	for i, c := range []struct {
		components []kmsg.DescribeClientQuotasRequestComponent
		want       int16
	}{
		{[]kmsg.DescribeClientQuotasRequestComponent{{}}, 42},
		{[]kmsg.DescribeClientQuotasRequestComponent{user, user}, 42},
		{[]kmsg.DescribeClientQuotasRequestComponent{{EntityType: "rack", MatchType: 2}}, 35},
		{[]kmsg.DescribeClientQuotasRequestComponent{{EntityType: "user", MatchType: 3}}, 42},
		{[]kmsg.DescribeClientQuotasRequestComponent{{EntityType: "user"}}, 42},
		{[]kmsg.DescribeClientQuotasRequestComponent{{EntityType: "user", MatchType: 1,
			Match: &name}}, 42},
		{[]kmsg.DescribeClientQuotasRequestComponent{user, {EntityType: "ip", MatchType: 2}}, 42},
	} {
		req := kmsg.NewPtrDescribeClientQuotasRequest()
		req.Components = c.components
		got := ask[*kmsg.DescribeClientQuotasResponse](b, 1, req)
		if got.ErrorCode != c.want || got.Entries != nil {
			t.Errorf("case %d: error %d, want %d; %v", i, got.ErrorCode, c.want, got.Entries)
		}
	}
}

package browser

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// changes makes each change that the console offers, as a user would: it produces a record, moves
// the offsets of a group, and aborts a transaction. The accessibility test later opens the
// resulting pages.
func changes(t *testing.T, c *cluster, b *browser) {
	b.visit(c.console + "topic?name=orders")
	b.click(`a[href^="produce"]`)
	b.await(`document.querySelector("form.write")`)
	b.js(`document.querySelector("[name=key]").value = "from the console";
		document.querySelector("[name=value]").value = "{\"a\": [1]}";`)
	b.click("form.write button")
	b.await(`location.pathname.endsWith("/message") && document.querySelector("pre").innerText.includes("\"a\": [\n")`)
	commitOffsets(t, c)
	b.visit(c.console + "group?name=readers")
	b.click(`a[href^="offsets"]`)
	b.await(`document.querySelector("select[name=to]")`)
	b.js(`document.querySelector("select[name=to]").value = "latest"`)
	b.click("form.filter button")
	b.await(`document.querySelector("form[method=post] button.primary")`)
	b.click("form[method=post] button.primary")
	b.await(`location.pathname.endsWith("/group") && document.querySelector(".lead").innerText.includes("Lag: 0")`)
	openTransaction(t, c)
	b.visit(c.console + "transactions")
	b.click(`td a[href^="abort"]`)
	b.await(`document.querySelector("form[action=abort] button")`)
	b.click("form[action=abort] button")
	b.await(`location.pathname.endsWith("/transaction") && /Abort/.test(document.querySelector("dd").innerText)`)
	if text := b.text(".where"); !strings.Contains(text, "may clean") {
		t.Errorf("the head says %q", text)
	}
	openTransaction(t, c) // shown on pages of the accessibility test
}

// commitOffsets creates the group readers. The group has read one record of orders and has no
// members.
func commitOffsets(t *testing.T, c *cluster) {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.bootstrap...), kgo.ConsumerGroup("readers"),
		kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.PollRecords(t.Context(), 1)
	if err := client.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// openTransaction begins a transaction with the id payments. The transaction's client then
// disconnects.
func openTransaction(t *testing.T, c *cluster) {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.bootstrap...), kgo.TransactionalID("payments"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseAllowingRebalance)
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	record := &kgo.Record{Topic: "orders", Value: []byte("open")}
	if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

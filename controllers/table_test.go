package controllers

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// firstRow returns the cells, by column name, of the first row that kubectl get -o wide would print
// for one kind of resource in the fixture's namespace.
func (f *fixture) firstRow(g Gomega, resources string) map[string]any {
	client, err := rest.HTTPClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	address := strings.TrimSuffix(config.Host, "/") + "/apis/heartwood.dev/v1alpha1/namespaces/" +
		f.namespace + "/" + resources
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address,
		http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := client.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	var table metav1.Table
	g.Expect(json.NewDecoder(response.Body).Decode(&table)).To(Succeed())
	g.Expect(table.Rows).NotTo(BeEmpty())
	cells := map[string]any{}
	for i, column := range table.ColumnDefinitions {
		cells[column.Name] = table.Rows[0].Cells[i]
	}
	return cells
}

// expectColumns waits until the columns Reason and Under-Replicated of the first Topic have the
// given values.
func (f *fixture) expectColumns(reason string, underReplicated int) {
	Eventually(func(g Gomega) {
		cells := f.firstRow(g, "topics")
		g.Expect([]any{cells["Reason"], cells["Under-Replicated"]}).To(Equal([]any{reason,
			float64(underReplicated)}))
	}).Should(Succeed())
}

package console

import (
	"errors"
	"net/http"
	"time"
)

// cleanPage is the form for requesting a pass.
type cleanPage struct {
	Topic   string
	Row     topicRow
	Refusal string // reason why the user may not request a pass, or ""
	Doubt   string // reason why Kubernetes might refuse the request, or ""
	Fault   string // reason why the request failed, or ""
}

// cleanRefusal returns the reason why the user of a request may not clean topics, or "" if the user
// may. With an Authority, it returns "", because the API server decides when it receives the
// request.
func (c *Console) cleanRefusal(r *http.Request) string {
	if c.opts.Authority != nil || c.local(r) {
		return ""
	}
	return "The console accepts requests to clean only if it listens on a loopback address and is " +
		"opened as localhost and not through a proxy, or if it authenticates its users (--auth). Use " +
		"kubectl annotate topic NAME heartwood.dev/clean-now=\"$(date)\"."
}

func (c *Console) cleanForm(r *http.Request) (view, error) {
	return c.cleanView(r, r.URL.Query().Get("topic"), "")
}

func (c *Console) cleanView(r *http.Request, topic, failure string) (view, error) {
	answers := c.opts.Fleet.Ask(r.Context(), []string{topic})
	rows := topicsOf(answers, time.Now())
	if len(rows) != 1 || topic == "" {
		return view{}, unknownTopic(topic, answers)
	}
	page := cleanPage{Topic: topic, Row: rows[0], Refusal: c.cleanRefusal(r), Fault: failure}
	if c.opts.Authority != nil {
		if err := c.permit(r, Clean); err != nil {
			page.Doubt = err.Error()
		}
	}
	switch {
	case page.Refusal != "":
	case !page.Row.Compacted:
		page.Refusal = "The topic is not compacted."
	case page.Row.Reason == "CleanerDisabled":
		page.Refusal = page.Row.Message + "."
	}
	return c.answered(view{Template: "clean", Title: "Clean " + topic + " now", Page: "map",
		Body: page}, answers), nil
}

// clean requests a pass over all replicas of a topic, and redirects to the topic's map.
func (c *Console) clean(w http.ResponseWriter, r *http.Request) {
	const formBytesMax = 4 << 10
	r.Body = http.MaxBytesReader(w, r.Body, formBytesMax)
	topic := r.PostFormValue("topic")
	var err error
	switch refusal := c.cleanRefusal(r); {
	case refusal != "":
		err = &fault{status: http.StatusForbidden, text: refusal}
	case topic == "":
		err = badRequest("The request names no topic.")
	default:
		err = c.requestClean(r, topic)
	}
	c.audit(r, "clean topic", err, "topic", topic)
	if err == nil {
		redirect(w, query("map", "topic", topic, "asked", "1"))
		return
	}
	var known *fault
	if errors.As(err, &known) {
		c.render(w, r, c.failed(r, err))
		return
	}
	v, failed := c.cleanView(r, topic, err.Error())
	if failed != nil {
		v = c.failed(r, errors.Join(err, failed))
	}
	v.Status = http.StatusBadGateway
	c.render(w, r, v)
}

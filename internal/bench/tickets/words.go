package tickets

import "strings"

var (
	fields     = strings.Fields("status priority assignee group subject tags due_at type")
	kinds      = strings.Fields("question incident problem task")
	priorities = strings.Fields("low normal high urgent")
	states     = strings.Fields("new open pending hold solved closed")
	locales    = strings.Fields("en-US en-GB de fr es pt-BR ja it nl pl")
	channels   = strings.Fields("email web chat api voice mobile")
	scores     = strings.Fields("unoffered offered good bad")
	syllables  = strings.Fields(
		"an bel cor da el fi gra hol in jo ka lin mar no ol pe quin ra sta tom ur vi wen xa yo zel bra cle dru fro",
	)
)

// words are the words of the generated texts. Stream selects words at the front most often.
var words = strings.Fields(
	`the to I and a is it my of in that have you for not on with this but can be was are when we your
from me do at please as or so after if has an account will get order no email what there help just
does any out all been up still they had again would could how use need one time our app page try
error only now been about some when log which see sent able time where then because same update
password back name first more than work new user them him her here change phone does using since
before today yesterday week month day called message number card payment refund invoice charge
billed twice subscription plan upgrade cancel trial expired renewal receipt shipping delivery
package tracking address arrived missing damaged wrong item size color replacement return label
courier warehouse stock screen button click blank loading slow crash freeze restart browser chrome
firefox safari version install uninstall android iphone tablet laptop windows printer network wifi
connection timeout server database export import report dashboard chart filter column row
spreadsheet file attachment upload download folder permission access denied admin role team member
invite license seat integration webhook token secret certificate domain redirect login logout
session cookie verification code authenticator device settings profile picture language region
currency tax discount coupon voucher balance credit debit bank transfer pending failed declined
processed approved rejected review feedback survey rating complaint escalate manager supervisor
agent support ticket case reference thanks regards hello hi dear sincerely appreciate urgent
immediately frustrated disappointed confused unfortunately however although therefore meanwhile
otherwise instead perhaps probably definitely already always never often sometimes usually
recently finally suddenly correctly properly completely partially automatically manually step
follow instruction guide article documentation example sample test production environment staging
customer client vendor partner contract agreement policy privacy terms legal security breach
suspicious fraud unauthorized transaction merchant gateway checkout cart basket wishlist catalog
product category search result sort order newest oldest history archive deleted restore backup
recover lost found duplicate merge split assign notification alert reminder calendar schedule
appointment meeting conference call recording transcript voicemail extension queue wait hold
transfer disconnect reconnect quality audio video camera microphone speaker headset volume mute
share stream buffer resolution`,
)

// phrases are sentences that occur often in tickets.
var phrases = []string{
	"Thank you for contacting our support team",
	"Please let us know if you have any further questions",
	"I have already tried to restart the device",
	"We are looking into this and will get back to you shortly",
	"The page does not load and I only see an error",
	"Could you please send us a screenshot of the error message",
	"I would like to cancel my subscription", "I was charged twice for the same order",
	"My package has not arrived yet", "The tracking number does not work",
	"Please reset my password",
	"I cannot log in to my account since the last update",
	"This ticket was merged into another one",
	"We have issued a full refund to your original payment method",
	"It may take five to ten business days",
	"Is there a way to export all records as a spreadsheet",
	"The problem is solved, thank you very much",
	"Sent from my mobile device", "This conversation is being recorded for quality purposes",
	"Kind regards",
}

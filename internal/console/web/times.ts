// Replaces the text of each <time>, which is UTC, by the local time of the reader.
export function localTimes(within: ParentNode): void {
  for (const time of within.querySelectorAll<HTMLTimeElement>("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (isNaN(at.getTime())) continue;
    time.title = time.dateTime;
    time.textContent = local(at);
  }
}

// local formats a time as the brokers' logs do, in the reader's time zone.
function local(at: Date): string {
  const two = (n: number) => String(n).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return new Date().toDateString() === at.toDateString() ? clock : `${day} ${clock}`;
}

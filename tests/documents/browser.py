"""A browser without a window: it opens pages, follows links and sends forms."""

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, Request, build_opener


@dataclass
class Form:
    """A form of a page, with what its fields hold."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[str] = field(default_factory=list)  # what they say


class Page(HTMLParser):
    """What a reader can click on a page, or type into it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.links: list[tuple[str, str]] = []  # what a link says, and its address
        self.rows: list[tuple[str, str]] = []  # those in the table of a list
        self.is_in_list = False
        self.forms: list[Form] = []
        self.href: str | None = None
        self.select = self.textarea = ""
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        match tag:
            case "a":
                self.href, self.words = given.get("href"), ""
            case "table" if given.get("id") == "result_list":
                self.is_in_list = True
            case "form":
                method = given.get("method", "get").lower()
                self.forms.append(Form(given.get("action", ""), method))
            case "input" if self.forms:
                self.add_input(given)
            case "button":
                self.words = ""
            case "select":
                self.select = given.get("name", "")
            case "option" if self.select and self.forms:
                fields = self.forms[-1].fields
                if "selected" in given or self.select not in fields:
                    fields[self.select] = given.get("value", "")
            case "textarea":
                self.textarea, self.words = given.get("name", ""), ""

    def add_input(self, given: dict[str, str]) -> None:
        form = self.forms[-1]
        match given.get("type"):
            case "submit":
                form.buttons.append(given.get("value", ""))
            case "checkbox" | "radio" if "checked" not in given:
                pass
            case _ if "name" in given:
                form.fields[given["name"]] = given.get("value", "")

    def handle_data(self, data: str) -> None:
        self.words += data

    def handle_endtag(self, tag: str) -> None:
        match tag:
            case "a" if self.href is not None:
                links = self.rows if self.is_in_list else self.links
                links.append((self.words.strip(), self.href))
                self.href = None
            case "table":
                self.is_in_list = False
            case "button" if self.forms:
                self.forms[-1].buttons.append(self.words.strip())
            case "select":
                self.select = ""
            case "textarea" if self.forms:
                self.forms[-1].fields[self.textarea] = self.words


class Browser:
    """One reader's browser, which keeps cookies."""

    def __init__(self) -> None:
        self.opener = build_opener(HTTPCookieProcessor(CookieJar()))
        self.address = ""
        self.page = Page("")

    def open(self, address: str, data: dict[str, str] | None = None) -> None:
        """Open an address, or send fields to it; follow redirects."""
        address = urljoin(self.address, address)
        body = None if data is None else urlencode(data).encode()
        with self.opener.open(Request(address, body, {"Referer": address})) as answer:
            self.address = answer.url
            self.page = Page(answer.read().decode())

    def type(self, name: str, text: str) -> None:
        """Type into a field. A form of the admin puts words before its name."""
        for form in self.page.forms:
            for each in form.fields:
                if each == name or each.endswith(f"-{name}"):
                    form.fields[each] = text
                    return
        sys.exit(f"{self.address} has no field {name!r}.")

    def click(self, words: str) -> None:
        """Press the button that says so, or follow the first such link.

        In a list, what a row says begins so.
        """
        for form in self.page.forms:
            if words in form.buttons:
                self.send(form)
                return
        rows = [url for label, url in self.page.rows if label.startswith(words)]
        others = [url for label, url in self.page.links if label == words]
        for address in [*rows, *others][:1]:
            self.open(address)
            return
        sys.exit(f"{self.address} has nothing to click that says {words!r}.")

    def send(self, form: Form) -> None:
        address = urljoin(self.address, form.action)
        if form.method == "post":
            self.open(address, form.fields)
        else:
            self.open(f"{address.partition('?')[0]}?{urlencode(form.fields)}")

    def sees(self, *texts: str) -> bool:
        return all(text in self.page.text for text in texts)

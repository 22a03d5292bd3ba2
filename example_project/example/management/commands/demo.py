"""manage.py demo"""

import os
import secrets
import signal
import time
from contextlib import ExitStack

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, connection

from example.browser import Browser
from example.processes import HOST, Child, ChildDied, free_port, is_free
from example.story import ELEMENTS, Story, StoryFailed
from passes.ingest import ingest_elements

DEFAULT_PORT = 8000
START_SECONDS = 30
ADMIN = "demo-admin"
LOGS = settings.BASE_DIR / ".demo"


class Command(BaseCommand):
    help = "Start the whole example: database, web server and worker."

    def add_arguments(self, parser):
        parser.add_argument(
            "--port",
            type=int,
            help=f"The web server's port (default: {DEFAULT_PORT} if it is free).",
        )
        parser.add_argument(
            "--headless",
            action="store_true",
            help="Play the whole story once without a browser, and exit.",
        )

    def handle(self, *, port, headless, **options):
        port = self.choose_port(port)
        handle_signals(signal.default_int_handler)  # Raises KeyboardInterrupt.
        try:
            with ExitStack() as children:
                try:
                    self.run(port, headless, children)
                finally:
                    handle_signals(signal.SIG_IGN)  # The end takes some seconds.
        except KeyboardInterrupt:
            if headless:
                raise CommandError("Interrupted before the end of the story.") from None
        except (ChildDied, StoryFailed, OSError) as error:
            raise CommandError(f"{error}\nThe logs are in {LOGS}.") from error

    def choose_port(self, wanted):
        """Return a free port: the one that is wanted, or else the usual one."""
        if is_free(wanted or DEFAULT_PORT):
            return wanted or DEFAULT_PORT
        if wanted:
            raise CommandError(f"Port {wanted} is in use: choose another with --port.")
        self.say("Port", f"{DEFAULT_PORT} is in use, so another one is taken.")
        return free_port()

    def run(self, port, headless, children):
        """Start everything; play the story, or wait for Ctrl-C."""
        self.prepare_database()
        address = f"http://{HOST}:{port}"
        web = self.start(
            children, "web server", "runserver", f"{HOST}:{port}", "--noreload"
        )
        worker = self.start(children, "worker", "runjobs", "--grace", "10")
        self.wait_for_web_server(web, address)
        self.say("Web server", f"{address}/")
        self.say("Worker", f"runjobs, its output is in {worker.log}")

        def check():
            web.check()
            worker.check()

        if headless:
            self.play(Story(address, self.say, check))
        else:
            self.welcome(address, Story(address, self.say, check))
            while True:
                check()
                time.sleep(0.5)

    def start(self, children, name, *command):
        """Start a process that ends with the stack of children."""
        children.callback(self.say, "Stopped", name)
        return children.enter_context(Child(name, *command, logs=LOGS))

    def prepare_database(self):
        """Migrate, and load the ground stations."""
        try:
            connection.ensure_connection()
        except OperationalError as error:
            raise CommandError(f"The database does not answer: {error}") from error
        where = "the one that DATABASE_URL names"
        if not os.environ.get("DATABASE_URL"):
            where = f"embedded, in {settings.BASE_DIR / '.pgdata'}"
        version = connection.pg_version // 10_000
        self.say("Database", f"PostgreSQL {version}, {where}")
        call_command("migrate", verbosity=0, interactive=False)
        call_command("loaddata", "ground_stations", verbosity=0)

    def wait_for_web_server(self, web, address):
        """Wait until the first page is served."""
        deadline = time.monotonic() + START_SECONDS
        while not answers(address):
            web.check()
            if time.monotonic() > deadline:
                raise StoryFailed(f"No answer from {address} in {START_SECONDS} s.")
            time.sleep(0.1)

    def welcome(self, address, story):
        """Load the data, and say what there is to see."""
        ingested = ingest_elements(ELEMENTS.read_text(encoding="utf-8"))
        self.say("Satellites", f"{ingested.read} read, {ingested.changed} changed")
        story.deliver_again()
        self.say("Admin", f"{address}/admin/  {self.make_admin()}")
        self.say("", "Press Ctrl-C to stop.")

    def make_admin(self):
        """Give the admin user a new password and return it, in words."""
        if not settings.DEBUG:
            return "(without DEBUG there is no user: createsuperuser makes one)"
        password = secrets.token_urlsafe(8)
        user, _ = get_user_model().objects.get_or_create(username=ADMIN)
        user.is_staff = user.is_superuser = True
        user.set_password(password)
        user.save()
        return f"user {ADMIN}, password {password}"

    def play(self, story):
        """Play the story from the beginning to the end."""
        story.ingest()
        story.recompute()
        story.deliver_again()
        story.press_the_button()
        story.convert()
        story.refuse()
        self.say("Done", "everything happened as it should.")

    def say(self, what, text):
        """Print one line, at once, with what it is about in the margin."""
        self.stdout.write(f"{what:<12}{text}")
        self.stdout.flush()


def answers(address):
    """Tell whether the web server serves its first page."""
    try:
        return Browser(address).get("/").status == 200
    except OSError:
        return False


def handle_signals(handler):
    """Treat SIGTERM and a closed terminal as Ctrl-C."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):  # Windows has no SIGHUP.
            signal.signal(getattr(signal, name), handler)

"""The browser tests can rely on their browser."""

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page


@pytest.mark.browser
@pytest.mark.django_db
def test_a_page_is_shown_and_the_database_can_be_asked_meanwhile(page: Page) -> None:
    page.set_content("<h1>Weave</h1><script>document.title = 'shown'</script>")
    assert page.title() == "shown"
    assert page.get_by_role("heading").inner_text() == "Weave"
    assert User.objects.count() == 0

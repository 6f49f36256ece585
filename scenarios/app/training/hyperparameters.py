"""Files of hyper-parameters: the agent of each scenario, and one for all others.

```yaml
power/city: {kind: td3, learning_rate: 0.002}
default: {kind: score-function}
```
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import create_model

from netsim.errors import BadInput
from netsim.part import Part
from rl.agents import AGENTS, Agent
from scenarios.app.study.dump import as_yaml
from scenarios.app.study.error_messages import build, nearest
from scenarios.app.study.yaml_document import one_line, read

DEFAULT = "default"
"""the entry of scenarios that have none of their own"""


def read_hyperparameters(path: Path, scenario: str) -> dict[str, Any]:
    """The value of `train.agent` that a file has for a scenario. All entries are checked.

    Raises BadInput with one line for each mistake, and where there is nothing for the scenario.
    """
    document = read(path)
    fields: dict[str, Any] = {str(name): (Annotated[Agent, AGENTS], ...) for name in document.data}
    build(create_model("Hyperparameters", __base__=Part, **fields), document)
    found = document.data.get(scenario, document.data.get(DEFAULT))
    if found is None:
        hint = nearest(scenario, list(fields))
        raise BadInput(one_line(f"{path}: has no agent for {scenario}{hint}, and no {DEFAULT}; add one of them"))
    return dict(found)


def hyperparameters_yaml(scenario: str, agent: Agent) -> str:
    """The file of one scenario: all settings of its agent."""
    return as_yaml({scenario: agent.model_dump(mode="json")})
